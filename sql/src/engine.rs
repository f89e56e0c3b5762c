//! Where statements are answered: in this process, or in a cluster.

use anyhow::Result;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement;
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::cluster::Client;
use crate::database::{Database, Omissions};

/// What answers statements.
pub(crate) enum Engine {
    Here(Database),
    Cluster(Client),
}

/// The columns of an answer, and its rows.
pub(crate) type Answered<'e> = (SchemaRef, BoxStream<'e, Result<RecordBatch>>);

impl Engine {
    /// Begins to answer a statement, which is the one with this number in a text.
    ///
    /// # Errors
    ///
    /// Fails if the statement is wrong or not allowed, or if a trace cannot be read.
    pub(crate) async fn answer<'e>(
        &'e self,
        statement: Statement,
        number: usize,
        sql: &'e str,
    ) -> Result<Answered<'e>> {
        match self {
            Engine::Here(database) => {
                let statement = database.plan(statement, sql).await?;
                let rows = database.run(statement, sql).await?;
                let explained =
                    move |batch: Result<_, _>| batch.map_err(|error| database.explained(&error, sql));
                Ok((rows.schema(), rows.map(explained).boxed()))
            }
            Engine::Cluster(client) => client.ask(sql, number).await,
        }
    }

    /// Returns what is left out of the answers.
    pub(crate) fn omissions(&self) -> Omissions {
        match self {
            Engine::Here(database) => Omissions {
                damage: database.damage(),
                unreadable: database.unreadable().to_vec(),
                notes: database.notes().to_vec(),
            },
            Engine::Cluster(client) => client.omissions(),
        }
    }
}
