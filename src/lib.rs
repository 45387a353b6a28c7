//! nuggetd reads crisis feeds and publishes, per event, day and question, short facts that cite the items they come
//! from.
//!
//! The rooms, in the order in which the data passes them; none imports from one further right, except the words of
//! [`model`]: `feed` → `clean` → `index` → `search` → `facts` → `publish`.

pub mod model;
