//! The fields of a kind of events as columns, of which a reader of the table makes those that it needs.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, Field};
use etw_schema::kinds::{ColumnUnit, KindColumn, KindColumns};
use etw_schema::{Event, EventSchema, Properties, PropertyIndex};

use super::builder::{Builder, Lost};
use super::types::{data_type, from_data_type};

/// Limit of schemas whose properties are remembered.
const MAX_SCHEMAS: usize = 1 << 12;

/// Columns with the fields of all versions of an event, with the types of their schemas.
///
/// Names and types are those of [`KindColumns`].
///
/// ```
/// use arrow_array::ArrayRef;
/// use etw_arrow::EventColumns;
/// use etw_schema::Event;
///
/// /// Returns the first field of some events.
/// fn first_field(events: &[Event<'_>]) -> Option<ArrayRef> {
///     let schemas = events.iter().filter_map(Event::schema);
///     let columns = EventColumns::from_schemas(schemas.map(|schema| &**schema), &["time"]);
///     let mut builder = columns.builder(&[0]);
///     events.iter().for_each(|event| builder.put(event));
///     builder.take().ok()?.pop()
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct EventColumns {
    columns: Arc<KindColumns>,
}

impl EventColumns {
    /// Returns the columns of events with these schemas. A field whose name is reserved gets another one.
    pub fn from_schemas<'s>(
        schemas: impl IntoIterator<Item = &'s EventSchema>,
        reserved: &[impl AsRef<str>],
    ) -> EventColumns {
        let mut columns = KindColumns::new(reserved.iter().map(|name| name.as_ref()));
        schemas.into_iter().for_each(|schema| columns.add(schema));
        EventColumns { columns: Arc::new(columns) }
    }

    /// Returns the columns' names and types.
    pub fn fields(&self) -> Vec<Field> {
        self.columns.as_slice().iter().map(field).collect()
    }

    /// Returns the columns with these numbers in a form that another process can make them from
    /// ([`EventColumns::from_parts`]): name and type, and whether the values are the names of a field's values.
    pub fn parts(&self, columns: &[usize]) -> Vec<(Field, bool)> {
        let found = columns.iter().filter_map(|number| self.columns.as_slice().get(*number));
        found.map(|column| (field(column), column.is_name)).collect()
    }

    /// Returns the columns that [`EventColumns::parts`] described, or `None` if a type is not one
    /// that fields of events have.
    pub fn from_parts(parts: &[(Field, bool)], reserved: &[impl AsRef<str>]) -> Option<EventColumns> {
        let mut columns = KindColumns::new(reserved.iter().map(|name| name.as_ref()));
        for (field, is_name) in parts {
            let field_type = from_data_type(field.data_type())?;
            let (name, unit) = (field.name().clone(), ColumnUnit::None);
            columns.push(KindColumn { name, field_type, unit, is_name: *is_name });
        }
        Some(EventColumns { columns: Arc::new(columns) })
    }

    /// Returns a builder of the columns with these numbers.
    pub fn builder(&self, columns: &[usize]) -> EventColumnsBuilder {
        let all = self.columns.as_slice();
        let wanted: Vec<usize> = columns.iter().copied().filter(|number| *number < all.len()).collect();
        EventColumnsBuilder {
            builders: wanted.iter().map(|number| Builder::new(&all[*number].field_type)).collect(),
            are_names: wanted.iter().map(|number| all[*number].is_name).collect(),
            wanted,
            columns: self.columns.clone(),
            places: HashMap::new(),
            last: None,
            lost: Lost::default(),
        }
    }
}

fn field(column: &KindColumn) -> Field {
    Field::new(&column.name, data_type(&column.field_type), true)
}

/// Collects the fields of events as rows.
#[derive(Debug)]
pub struct EventColumnsBuilder {
    columns: Arc<KindColumns>,
    /// The numbers of the columns that are made.
    wanted: Vec<usize>,
    builders: Vec<Builder>,
    /// Whether each has the names of values.
    are_names: Vec<bool>,
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
        for ((builder, is_name), place) in self.builders.iter_mut().zip(&self.are_names).zip(places.iter()) {
            let found = match place {
                Some(Place::At(index)) => properties.at(*index),
                Some(Place::Number(number)) => properties.iter().nth(*number),
                None => None,
            };
            match found {
                Some(found) if *is_name => builder.text(Some(&found.text().to_string())),
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
        let (columns, wanted) = (&self.columns, &self.wanted);
        let entry = self.places.entry(address).or_insert_with(|| {
            let known = columns.places(schema);
            let place = |column: &usize| {
                let (property, _) = known.iter().find(|(_, place)| place == column)?;
                let name = &schema.properties.get(*property)?.name;
                let is_first =
                    schema.properties.iter().position(|other| other.name == *name) == Some(*property);
                Some(match properties.compiled().property_index(name) {
                    Some(index) if is_first => Place::At(index),
                    _ => Place::Number(*property),
                })
            };
            (schema.clone(), wanted.iter().map(place).collect())
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
