//! The fields of a kind of events as columns, of which a reader of the table makes those that it needs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, Field};
use etw_schema::{Event, EventSchema, Properties, PropertyIndex, PropertyType};

use super::builder::{Builder, Lost};
use super::kind::{self, Kind, MAX_COLUMNS};

/// Limit of schemas whose properties are remembered.
const MAX_SCHEMAS: usize = 1 << 12;

/// Columns with the fields of all versions of an event, with the types of their schemas.
///
/// A field whose values have names has a second column for these, `FIELD_name`. A field of several types has the wider one
/// if all are whole numbers, and is a text otherwise.
///
/// ```
/// use arrow_array::ArrayRef;
/// use etw_export::columns::EventColumns;
/// use etw_schema::Event;
///
/// /// Returns the first field of some events.
/// fn first_field(events: &[Event<'_>]) -> Option<ArrayRef> {
///     let schemas = events.iter().filter_map(Event::schema);
///     let columns = EventColumns::of(schemas.map(|schema| &**schema), &["time"]);
///     let mut builder = columns.builder(&[0]);
///     events.iter().for_each(|event| builder.put(event));
///     builder.take().ok()?.pop()
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct EventColumns {
    columns: Arc<Vec<Column>>,
    /// Names that no column has.
    reserved: Arc<Vec<String>>,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    kind: Kind,
    /// Whether the values are the names of the field's values.
    is_name: bool,
}

/// A field of a schema, and the number of its property.
struct Found {
    number: usize,
    column: Column,
}

impl EventColumns {
    /// Returns the columns of events with these schemas, at most 1,024. A field whose name is reserved gets another one.
    pub fn of<'s>(
        schemas: impl IntoIterator<Item = &'s EventSchema>,
        reserved: &[impl AsRef<str>],
    ) -> EventColumns {
        let reserved: Vec<String> = reserved.iter().map(|name| name.as_ref().to_owned()).collect();
        let mut columns: Vec<Column> = Vec::new();
        for schema in schemas {
            for Found { column, .. } in fields(schema, &reserved) {
                match columns.iter().position(|known| known.name == column.name) {
                    Some(place) => columns[place].kind = joined(&columns[place].kind, &column.kind),
                    None if columns.len() < MAX_COLUMNS => columns.push(column),
                    None => {}
                }
            }
        }
        EventColumns { columns: Arc::new(columns), reserved: Arc::new(reserved) }
    }

    /// Returns the columns' names and types.
    pub fn fields(&self) -> Vec<Field> {
        self.columns.iter().map(|column| Field::new(&column.name, column.kind.data_type(), true)).collect()
    }

    /// Returns the columns with these numbers in a form that another process can make them from
    /// ([`EventColumns::from_parts`]): name and type, and whether the values are the names of a field's values.
    pub fn parts(&self, columns: &[usize]) -> Vec<(Field, bool)> {
        let found = columns.iter().filter_map(|number| self.columns.get(*number));
        found
            .map(|column| (Field::new(&column.name, column.kind.data_type(), true), column.is_name))
            .collect()
    }

    /// Returns the columns that [`EventColumns::parts`] described, or `None` if a type is not one
    /// that fields of events have.
    pub fn from_parts(parts: &[(Field, bool)], reserved: &[impl AsRef<str>]) -> Option<EventColumns> {
        let columns = parts.iter().map(|(field, is_name)| {
            let kind = Kind::of_data_type(field.data_type())?;
            Some(Column { name: field.name().clone(), kind, is_name: *is_name })
        });
        let reserved = reserved.iter().map(|name| name.as_ref().to_owned()).collect();
        Some(EventColumns {
            columns: Arc::new(columns.collect::<Option<_>>()?),
            reserved: Arc::new(reserved),
        })
    }

    /// Returns a builder of the columns with these numbers.
    pub fn builder(&self, columns: &[usize]) -> EventColumnsBuilder {
        let columns: Vec<Column> =
            columns.iter().filter_map(|number| self.columns.get(*number)).cloned().collect();
        EventColumnsBuilder {
            builders: columns.iter().map(|column| Builder::new(&column.kind)).collect(),
            columns,
            reserved: self.reserved.clone(),
            places: HashMap::new(),
            last: None,
            lost: Lost::default(),
        }
    }
}

/// Collects the fields of events as rows.
#[derive(Debug)]
pub struct EventColumnsBuilder {
    columns: Vec<Column>,
    reserved: Arc<Vec<String>>,
    builders: Vec<Builder>,
    /// By the address of the schema, which is kept alive so that the address stays its own.
    places: HashMap<usize, (Arc<EventSchema>, Arc<[Option<Place>]>)>,
    /// The schema of the event before this one.
    last: Option<(usize, Arc<[Option<Place>]>)>,
    lost: Lost,
}

/// Where the value of a column is among the properties of an event.
#[derive(Debug, Clone, Copy)]
enum Place {
    At(PropertyIndex),
    /// Of several properties of one name, another one than the first.
    Number(usize),
}

impl EventColumnsBuilder {
    /// Adds an event. Columns of fields that it does not have are null.
    pub fn put(&mut self, event: &Event<'_>) {
        let (Ok(properties), Some(schema)) = (&event.properties, event.schema()) else {
            self.builders.iter_mut().for_each(|builder| {
                builder.null();
            });
            return;
        };
        let places = self.places(properties, schema);
        for ((builder, column), place) in self.builders.iter_mut().zip(&self.columns).zip(places.iter()) {
            let found = match place {
                Some(Place::At(index)) => properties.at(*index),
                Some(Place::Number(number)) => properties.iter().nth(*number),
                None => None,
            };
            match found {
                Some(found) if column.is_name => builder.text(Some(&found.text().to_string())),
                Some(found) => {
                    builder.value(found.value(), found.format(), &mut self.lost);
                }
                None => {
                    builder.null();
                }
            }
        }
    }

    fn places(&mut self, properties: &Properties<'_>, schema: &Arc<EventSchema>) -> Arc<[Option<Place>]> {
        let address = Arc::as_ptr(schema) as usize;
        if let Some((last, places)) = &self.last
            && *last == address
        {
            return places.clone();
        }
        if self.places.len() >= MAX_SCHEMAS {
            self.places.clear();
        }
        let (columns, reserved) = (&self.columns, &self.reserved);
        let entry = self.places.entry(address).or_insert_with(|| {
            let fields = fields(schema, reserved);
            let place = |column: &Column| {
                let field = fields.iter().find(|field| field.column.name == column.name)?;
                let name = &schema.properties.get(field.number)?.name;
                let is_first =
                    schema.properties.iter().position(|other| other.name == *name) == Some(field.number);
                Some(match properties.compiled().property_index(name) {
                    Some(index) if is_first => Place::At(index),
                    _ => Place::Number(field.number),
                })
            };
            (schema.clone(), columns.iter().map(place).collect())
        });
        let places = entry.1.clone();
        self.last = Some((address, places.clone()));
        places
    }

    /// Takes the rows, as one array for each column.
    ///
    /// # Errors
    ///
    /// Fails if a list has more elements than its offsets can count.
    pub fn take(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.builders.iter_mut().map(Builder::finish).collect()
    }
}

/// Returns the fields of a schema. Tables with rows of the events (`etw_analysis`) name their columns in the same way.
fn fields(schema: &EventSchema, reserved: &[String]) -> Vec<Found> {
    let top = schema.properties.get(..usize::from(schema.top_level)).unwrap_or_default();
    let mut names: HashSet<String> = reserved.iter().cloned().collect();
    let mut found = Vec::new();
    let mut room = MAX_COLUMNS;
    for (number, property) in top.iter().enumerate() {
        // Dots separate the parts of a path.
        let mut name = property.name.replace('.', "_");
        while !names.insert(name.clone()) {
            name.push('_');
        }
        let kind = kind::of_property(schema, property, &mut room, 0).unwrap_or(Kind::Text);
        let has_names =
            is_integer(&kind) && matches!(&property.kind, PropertyType::Value { map: Some(_), .. });
        found.push(Found { number, column: Column { name: name.clone(), kind, is_name: false } });
        let name = format!("{name}_name");
        if has_names && names.insert(name.clone()) {
            found.push(Found { number, column: Column { name, kind: Kind::Text, is_name: true } });
        }
    }
    found
}

fn is_integer(kind: &Kind) -> bool {
    is_unsigned(kind) || matches!(kind, Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64)
}

fn is_unsigned(kind: &Kind) -> bool {
    matches!(kind, Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64)
}

/// Returns the type for values of two.
fn joined(one: &Kind, other: &Kind) -> Kind {
    match (one, other) {
        (one, other) if one == other => one.clone(),
        (one, other) if is_unsigned(one) && is_unsigned(other) => Kind::U64,
        (one, other) if is_integer(one) && is_integer(other) => Kind::I64,
        _ => Kind::Text,
    }
}
