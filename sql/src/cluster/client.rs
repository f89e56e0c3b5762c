//! A client: sends statements to a scheduler, and reads their answers.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightData, Ticket};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion_distributed::grpc::BoxCloneSyncChannel;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tonic::{Code, Status};

use super::messages::{self, End, Question, VERSION};
use super::security::Access;
use crate::database::Omissions;

/// A connection with a scheduler, and the traces that are asked about.
pub(crate) struct Client {
    client: FlightServiceClient<BoxCloneSyncChannel>,
    address: String,
    traces: Vec<(String, Option<String>)>,
    views: Vec<(String, String)>,
    strict: bool,
    end: Arc<Mutex<End>>,
}

impl Client {
    /// Connects with the scheduler at an address.
    ///
    /// # Errors
    ///
    /// Fails if it is not there.
    pub(crate) async fn connect(
        access: &Access,
        address: &str,
        traces: Vec<(String, Option<String>)>,
        views: Vec<(String, String)>,
        strict: bool,
    ) -> Result<Client> {
        let Some((host, port)) =
            address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)))
        else {
            bail!("'{address}' is not HOST:PORT");
        };
        let channel = access.connect(&access.url(host, port)).await;
        let channel = channel.with_context(|| format!("the scheduler at {address} cannot be reached"))?;
        Ok(Client {
            client: FlightServiceClient::new(channel).max_decoding_message_size(usize::MAX),
            address: address.to_owned(),
            traces,
            views,
            strict,
            end: Arc::default(),
        })
    }

    /// Asks a statement of a text.
    ///
    /// # Errors
    ///
    /// Fails with the message of the scheduler, or if it is gone.
    pub(crate) async fn ask(
        &self,
        sql: &str,
        statement: usize,
    ) -> Result<(SchemaRef, BoxStream<'static, Result<RecordBatch>>)> {
        let question = Question {
            version: VERSION.to_owned(),
            traces: self.traces.clone(),
            views: self.views.clone(),
            sql: sql.to_owned(),
            statement,
            strict: self.strict,
        };
        let ticket = Ticket { ticket: messages::encode(&question)?.into() };
        let answer = self.client.clone().do_get(ticket).await;
        let answer = answer.map_err(|status| explained(&self.address, &status))?.into_inner();
        let (end, address) = (self.end.clone(), self.address.clone());
        let is_whole = Arc::new(Mutex::new(false));
        let was_whole = is_whole.clone();
        let rows = answer.map_err(|status| FlightError::Tonic(Box::new(status))).try_filter_map(
            move |message: FlightData| {
                let is_end = message.data_header.is_empty();
                let found = match is_end {
                    true => messages::decode(&message.app_metadata).map(|found: End| {
                        *end.lock().unwrap_or_else(PoisonError::into_inner) = found;
                        *is_whole.lock().unwrap_or_else(PoisonError::into_inner) = true;
                        None
                    }),
                    false => Ok(Some(message)),
                };
                std::future::ready(found.map_err(|error| FlightError::ProtocolError(format!("{error:#}"))))
            },
        );
        let mut rows = FlightRecordBatchStream::new_from_flight_data(rows);
        let gone = address.clone();
        // The schema is the first message.
        let first = rows.next().await.transpose().map_err(|error| of_flight(&address, error))?;
        let schema = rows.schema().cloned().unwrap_or_else(|| Arc::new(Schema::empty()));
        let first = futures::stream::iter(first.map(Ok));
        let rest = rows.map_err(move |error| of_flight(&address, error));
        let end = futures::stream::once(async move {
            let is_whole = *was_whole.lock().unwrap_or_else(PoisonError::into_inner);
            (!is_whole).then(|| Err(anyhow!("the scheduler at {gone} is gone before the end of the answer")))
        });
        Ok((schema, first.chain(rest).chain(end.filter_map(std::future::ready)).boxed()))
    }

    /// Returns what is left out of the last answer.
    pub(crate) fn omissions(&self) -> Omissions {
        let End { damage, unreadable, notes } =
            self.end.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Omissions { damage, unreadable, notes }
    }
}

fn of_flight(address: &str, error: FlightError) -> anyhow::Error {
    match error {
        FlightError::Tonic(status) => explained(address, &status),
        other => other.into(),
    }
}

fn explained(address: &str, status: &Status) -> anyhow::Error {
    match status.code() {
        Code::Aborted => anyhow!("{}", status.message()),
        Code::Unauthenticated => anyhow!("the scheduler at {address} does not accept the token"),
        _ => anyhow!("the scheduler at {address} is gone: {}", status.message()),
    }
}
