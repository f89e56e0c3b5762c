//! Traces merged in time order, four levels of reading, predicates and the testing kit.
