//! The questions that the page asks.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::extract::{Json, Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use tower_http::compression::CompressionLayer;

use super::answer::{Body, about, about_base, about_both, blocking, finished};
use super::{Shared, Shown, guard, page, reports};
use crate::live::{LinesRequest, Live, ProfileRequest, RulesRequest, StartRequest, TableRequest};
use crate::model::Model;
use crate::presets::{self, Deletion, Preset};
use crate::providers::{self, ChoiceRequest, SearchRequest, ShowRequest};
use crate::query::{Query, QueryRequest};
use crate::session::Session;
use crate::source::{self, SourceRequest};
use crate::stacks::{self, StackRequest, StackSources};
use crate::tables::{self, CompareRequest, GridRequest, Page};
use crate::timeline::{self, ArrowRequest, Lanes, SliceRequest, StripRequest};

/// Returns all routes behind the guard.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/enter.js", get(page::enter_script))
        .route("/login.js", get(page::login_script))
        .route("/login", post(guard::login))
        .route("/app.js", get(page::script))
        .route("/app.css", get(page::style))
        .route("/icon.svg", get(page::icon))
        .route("/licenses.txt", get(page::licenses))
        .route("/report", get(report))
        .route("/api/status", get(status))
        .route("/api/preview", get(preview))
        .route("/api/catalog", get(catalog))
        .route("/api/lanes", get(lanes))
        .route("/api/tile/{run}/{group}/{level}/{index}", get(tile))
        .route("/api/arrows", post(arrows))
        .route("/api/slice", post(slice))
        .route("/api/base/tile/{run}/{group}/{level}/{index}", get(base_tile))
        .route("/api/compare/lanes", get(compared_lanes))
        .route("/api/compare/{what}", post(compared))
        .route("/api/event/{row}", get(event))
        .route("/api/rows", post(rows))
        .route("/api/find", post(find))
        .route("/api/csv", post(csv))
        .route("/api/source", post(source_lines))
        .route("/api/sql", post(sql))
        .route("/api/query", post(query))
        .route("/api/strip", post(strip))
        .route("/api/stacks", post(stack_tree))
        .route("/api/live", get(live))
        .route("/api/live/event/{number}", get(live_event))
        .route("/api/live/trace/{which}", get(live_trace))
        .route("/api/live/start", post(live_start))
        .route("/api/live/stop", post(live_stop))
        .route("/api/live/rules", post(live_rules))
        .route("/api/live/lines", post(live_lines))
        .route("/api/live/tables", post(live_tables))
        .route("/api/live/profiles", post(live_profiles))
        .route("/api/providers/search", post(provider_search))
        .route("/api/providers/show", post(provider_show))
        .route("/api/providers/choice", post(provider_choice))
        .route("/api/presets", get(presets_list))
        .route("/api/presets/open", post(presets_open))
        .route("/api/presets/save", post(presets_save))
        .route("/api/presets/delete", post(presets_delete))
        .route("/api/presets/file", post(presets_file))
        .route("/api/session", post(session))
        .route("/api/symbols", get(symbols))
        .route("/api/symbols/{action}", post(change_symbols))
        .fallback(async || (StatusCode::NOT_FOUND, "not found\n"))
        .layer(CompressionLayer::new())
        .layer(from_fn_with_state(Arc::clone(&shared), guard::guard))
        .with_state(shared)
}

type Server = State<Arc<Shared>>;

async fn status(State(shared): Server) -> Response {
    let mut status = json!(shared.loader.progress());
    status["is_live"] = shared.live.is_some().into();
    status["base"] = shared.base.as_ref().map(|base| json!(base.loader.progress())).into();
    Body::Json(status).into_response()
}

/// Returns the page that `etw report --format html` writes, with links to the page.
async fn report(State(shared): Server) -> Response {
    // One at a time, since each reads the traces.
    let turn = Arc::clone(&shared);
    let mut kept = turn.reports.lock().await;
    let known = kept.take();
    let made = tokio::task::spawn_blocking(move || reports::report(&shared.loader, known)).await;
    if let Ok(Ok(report)) = &made {
        *kept = report.to_keep();
    }
    finished(made)
}

async fn preview(State(shared): Server) -> Response {
    Body::Json(json!(*shared.loader.preview())).into_response()
}

async fn catalog(State(shared): Server) -> Response {
    let has_tags = !shared.stack_tags.is_empty();
    about(shared, move |shown, model| {
        let mut catalog = tables::catalog(model);
        catalog["has_tags"] = has_tags.into();
        catalog["run"] = shown.run.as_str().into();
        Ok(Body::Json(catalog))
    })
    .await
}

async fn lanes(State(shared): Server) -> Response {
    about(shared, |shown, model| {
        let groups: Vec<&Lanes> =
            shown.tiles.lanes(model)?.iter().filter(|lanes| !lanes.are_part()).collect();
        Ok(Body::Json(json!(groups)))
    })
    .await
}

async fn tile(
    State(shared): Server,
    Path((run, group, level, index)): Path<(String, String, u32, u64)>,
    headers: HeaderMap,
) -> Response {
    let current = shared.loader.model().map(|model| shared.shown(&model));
    if current.is_none_or(|shown| shown.run != run) {
        return (StatusCode::NOT_FOUND, "a tile of an earlier start\n").into_response();
    }
    let tag = format!("\"{run}-{group}-{level}-{index}\"");
    let is_known = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok()) == Some(tag.as_str());
    if is_known {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    about(shared, move |shown, model| {
        let tile = timeline::tile(&shown.tiles, model, &group, level, index)?;
        let headers = [
            (CONTENT_TYPE, "application/octet-stream".to_owned()),
            (CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()),
            (ETAG, tag),
        ];
        Ok((headers, tile.to_vec()))
    })
    .await
}

async fn arrows(State(shared): Server, Json(request): Json<ArrowRequest>) -> Response {
    about(shared, move |shown, model| Ok(Body::Json(timeline::arrows(&shown.tiles, model, request)?))).await
}

async fn slice(State(shared): Server, Json(request): Json<SliceRequest>) -> Response {
    about(shared, move |_, model| Ok(Body::Json(timeline::slice(model, &request)?))).await
}

async fn base_tile(
    State(shared): Server,
    Path((run, group, level, index)): Path<(String, String, u32, u64)>,
) -> Response {
    // The traces to compare with are not read again, so any run of this start has their tiles.
    let start = |run: &str| run.split('-').next().unwrap_or_default().to_owned();
    let current = shared.loader.model().map(|model| shared.shown(&model));
    if current.is_none_or(|shown| start(&shown.run) != start(&run)) {
        return (StatusCode::NOT_FOUND, "a tile of an earlier start\n").into_response();
    }
    about_base(shared, move |tiles, model| {
        let tile = timeline::tile(tiles, model, &group, level, index)?;
        let headers = [
            (CONTENT_TYPE, "application/octet-stream"),
            (CACHE_CONTROL, "private, max-age=31536000, immutable"),
        ];
        Ok((headers, tile.to_vec()))
    })
    .await
}

async fn compared_lanes(State(shared): Server) -> Response {
    about_both(shared, |shown, model, base, before| {
        let groups = timeline::pairs(shown.tiles.lanes(model)?, base.tiles.lanes(before)?);
        Ok(Body::Json(json!({ "length": before.since_start(before.end), "groups": groups })))
    })
    .await
}

/// A comparison, and what is wanted of it.
#[derive(Debug, Deserialize)]
struct Compared {
    #[serde(flatten)]
    request: CompareRequest,
    #[serde(flatten)]
    page: Page,
    #[serde(default)]
    text: String,
}

async fn compared(
    State(shared): Server,
    Path(what): Path<String>,
    Json(question): Json<Compared>,
) -> Response {
    let is_same_trace = question.request.is_same_trace;
    let answer = move |shown: &Shown, model: &Model, before: &Model| -> Result<Body> {
        let compared = shown.comparisons.get(before, model, &question.request)?;
        Ok(match what.as_str() {
            "rows" => Body::Arrow(compared.page(question.page)?),
            "csv" => Body::Csv(compared.csv()),
            "find" => Body::Json(json!({ "place": compared.find(&question.text, question.page.offset) })),
            _ => bail!("comparisons have rows, csv and find"),
        })
    };
    match is_same_trace {
        true => about(shared, move |shown, model| answer(shown, model, model)).await,
        false => about_both(shared, move |shown, model, _, before| answer(shown, model, before)).await,
    }
}

async fn event(State(shared): Server, Path(row): Path<u64>) -> Response {
    about(shared, move |_, model| Ok(Body::Json(model.event(row)?))).await
}

/// A view and what is wanted of it.
#[derive(Debug, Deserialize)]
struct Question<T> {
    view: GridRequest,
    #[serde(flatten)]
    wanted: T,
}

async fn rows(State(shared): Server, Json(question): Json<Question<Page>>) -> Response {
    about(shared, move |shown, model| {
        let view = shown.views.get(model, &question.view)?;
        Ok(Body::Arrow(tables::page(model, &view, &question.view, question.wanted)?))
    })
    .await
}

#[derive(Debug, Deserialize)]
struct Search {
    text: String,
    from: usize,
}

async fn find(State(shared): Server, Json(question): Json<Question<Search>>) -> Response {
    about(shared, move |shown, model| {
        let view = shown.views.get(model, &question.view)?;
        let Search { text, from } = &question.wanted;
        let place = tables::find_row(model, &view, &question.view, text, *from)?;
        Ok(Body::Json(json!({ "place": place })))
    })
    .await
}

async fn csv(State(shared): Server, Json(request): Json<GridRequest>) -> Response {
    about(shared, move |shown, model| {
        let view = shown.views.get(model, &request)?;
        Ok(Body::Csv(tables::csv(model, &view, &request)?))
    })
    .await
}

async fn source_lines(State(shared): Server, Json(request): Json<SourceRequest>) -> Response {
    if !shared.is_loopback {
        let text = "source files are shown on their own machine only";
        return (StatusCode::UNPROCESSABLE_ENTITY, text).into_response();
    }
    about(shared, move |_, model| Ok(Body::Json(source::source(model, &request)?))).await
}

async fn sql(State(shared): Server, Json(request): Json<GridRequest>) -> Response {
    about(shared, move |_, model| Ok(Body::Json(json!({ "sql": tables::sql(model, &request)? })))).await
}

/// Runs a statement. The page that goes away before it is answered ends it.
async fn query(State(shared): Server, Json(request): Json<QueryRequest>) -> Response {
    let _turn = match shared.queries.try_acquire() {
        Ok(turn) => turn,
        Err(_) => return (StatusCode::SERVICE_UNAVAILABLE, "other statements still run\n").into_response(),
    };
    let started = Query::start(request, shared.sql_program.as_deref(), &shared.paths.files);
    let query = match started {
        Ok(query) => query,
        Err(error) => return (StatusCode::UNPROCESSABLE_ENTITY, format!("{error:#}")).into_response(),
    };
    let answer = query.answer();
    let response = blocking(Arc::clone(&shared), move |_| Ok(Body::Arrow(answer()?))).await;
    drop(query);
    response
}

async fn strip(State(shared): Server, Json(request): Json<StripRequest>) -> Response {
    about(shared, move |_, model| Ok(Body::Json(timeline::strip(model, &request)?))).await
}

async fn stack_tree(State(shared): Server, Json(request): Json<StackRequest>) -> Response {
    let own = Arc::clone(&shared);
    let is_of_two_traces = request.is_of_two_traces();
    let tree = move |shown: &Shown, model: &Model, other: Option<&Model>| -> Result<Body> {
        let sources = StackSources {
            tags: &own.stack_tags,
            symbols: own.loader.symbols(),
            traced: &shown.traced_stacks,
        };
        Ok(Body::Arrow(stacks::tree(model, other, &request, sources)?))
    };
    match is_of_two_traces {
        true => about_both(shared, move |shown, model, _, before| tree(shown, model, Some(before))).await,
        false => about(shared, move |shown, model| tree(shown, model, None)).await,
    }
}

async fn symbols(State(shared): Server) -> Response {
    Body::Json(shared.symbols.describe()).into_response()
}

async fn presets_list(State(shared): Server) -> Response {
    blocking(shared, |shared| Ok(Body::Json(json!(shared.library.list())))).await
}

/// A file that a person chose in the page.
#[derive(Debug, Deserialize)]
struct ChosenFile {
    name: String,
    text: String,
}

async fn presets_open(State(shared): Server, Json(file): Json<ChosenFile>) -> Response {
    blocking(shared, move |_| Ok(Body::Json(json!(presets::open(&file.name, &file.text)?)))).await
}

async fn presets_save(State(shared): Server, Json(all): Json<Vec<Preset>>) -> Response {
    blocking(shared, move |shared| {
        let mut left_out = 0;
        for preset in &all {
            left_out += shared.library.save(preset)?;
        }
        Ok(Body::Json(json!({ "left_out": left_out })))
    })
    .await
}

async fn presets_delete(State(shared): Server, Json(deletion): Json<Deletion>) -> Response {
    blocking(shared, move |shared| {
        shared.library.delete(&deletion)?;
        Ok(Body::Json(json!({})))
    })
    .await
}

/// Returns presets as a file to share.
async fn presets_file(State(shared): Server, Json(all): Json<Vec<Preset>>) -> Response {
    blocking(shared, move |_| Ok(([(CONTENT_TYPE, "application/json")], presets::file_text(&all)?))).await
}

/// What the page shows.
#[derive(Debug, Deserialize)]
struct PageState {
    state: String,
}

/// Returns the session as a file.
async fn session(State(shared): Server, Json(page): Json<PageState>) -> Response {
    blocking(shared, move |shared| {
        let text = Session::text(&shared.paths, &page.state)?;
        Ok(([(CONTENT_TYPE, "application/json")], text))
    })
    .await
}

/// A change that has nothing to say.
#[derive(Debug, Deserialize)]
struct Nothing {}

async fn change_symbols(
    State(shared): Server,
    Path(action): Path<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Response {
    blocking(shared, move |shared| {
        match action.as_str() {
            "look" => shared.symbols.look()?,
            "fetch" => shared.symbols.fetch()?,
            _ => bail!("symbols are looked for (`look`) or fetched (`fetch`)"),
        }
        Ok(Body::Json(shared.symbols.describe()))
    })
    .await
}

/// Returns the answer of the live session.
async fn of_live<R: IntoResponse + Send + 'static>(
    shared: Arc<Shared>,
    compute: impl FnOnce(&Live) -> Result<R> + Send + 'static,
) -> Response {
    blocking(shared, move |shared| {
        compute(shared.live.as_ref().context("start etw view with --live for this")?)
    })
    .await
}

async fn live(State(shared): Server) -> Response {
    of_live(shared, |live| Ok(Body::Json(live.describe()))).await
}

async fn live_event(State(shared): Server, Path(number): Path<u64>) -> Response {
    of_live(shared, move |live| Ok(Body::Json(live.details(number)?))).await
}

async fn live_trace(State(shared): Server, Path(which): Path<String>) -> Response {
    of_live(shared, move |live| {
        let only_shown = match which.as_str() {
            "all.etl" => false,
            "shown.etl" => true,
            _ => bail!("all.etl or shown.etl"),
        };
        let headers = [
            (CONTENT_TYPE, "application/octet-stream".to_owned()),
            (CONTENT_DISPOSITION, format!("attachment; filename=\"live-{which}\"")),
        ];
        Ok((headers, live.save(only_shown)?))
    })
    .await
}

async fn live_start(State(shared): Server, Json(request): Json<StartRequest>) -> Response {
    of_live(shared, move |live| {
        live.start(&request)?;
        Ok(Body::Json(live.describe()))
    })
    .await
}

async fn live_stop(State(shared): Server, Json(Nothing {}): Json<Nothing>) -> Response {
    of_live(shared, |live| {
        live.stop()?;
        Ok(Body::Json(live.describe()))
    })
    .await
}

async fn live_rules(State(shared): Server, Json(request): Json<RulesRequest>) -> Response {
    of_live(shared, move |live| {
        live.set_rules(&request)?;
        Ok(Body::Json(live.describe()))
    })
    .await
}

async fn live_lines(State(shared): Server, Json(request): Json<LinesRequest>) -> Response {
    of_live(shared, move |live| Ok(Body::Json(live.lines(request)?))).await
}

async fn live_tables(State(shared): Server, Json(request): Json<TableRequest>) -> Response {
    of_live(shared, move |live| Ok(Body::Json(live.tables(&request)?))).await
}

async fn live_profiles(State(shared): Server, Json(request): Json<ProfileRequest>) -> Response {
    of_live(shared, move |_| Ok(Body::Json(Live::profiles(&request)?))).await
}

async fn provider_search(State(shared): Server, Json(request): Json<SearchRequest>) -> Response {
    blocking(shared, move |_| Ok(Body::Json(providers::find(&request)?))).await
}

async fn provider_show(State(shared): Server, Json(request): Json<ShowRequest>) -> Response {
    blocking(shared, move |_| Ok(Body::Json(providers::show(&request)?))).await
}

async fn provider_choice(Json(request): Json<ChoiceRequest>) -> Response {
    Body::Json(providers::choice(&request)).into_response()
}
