//! The values that a statement is executed with: in the order of its parameters, or by their names.

use std::borrow::Cow;

use manyhands_sqlite::Value;

use crate::Error;

/// The values for a statement's parameters.
///
/// | values | |
/// |---|---|
/// | `()` | none |
/// | `(1, "two", 3.0)` | a tuple, up to 16 |
/// | [`params![1, "two", 3.0]`](macro@crate::params) | as many as you like; and `&[Value]`, `&Vec<Value>`, `Vec<Value>` |
/// | [`named_params!{":id": 1, ":name": "two"}`](crate::named_params) | by name, with its sign (`:`, `@` or `$`) |
/// | `[(":id", 1), (":size", 2)]` | the same, for values of one type |
///
/// All parameters need a value, and all values a parameter.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
/// use manyhands::named_params;
/// let mut connection = database.connect()?;
/// connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)", ())?;
/// connection.execute("INSERT INTO item VALUES (?1, ?2)", (1, "lamp"))?;
/// connection.execute("INSERT INTO item VALUES (:id, :name)", named_params! {":name": "desk", ":id": 2})?;
/// let name: String =
///     connection.query_row("SELECT name FROM item WHERE id = :id", [(":id", 2)], |row| row.get("name"))?;
/// assert_eq!(name, "desk");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Params: sealed::Sealed + Sized {
    #[doc(hidden)]
    fn given<'a>(self) -> Given<'a>
    where
        Self: 'a;
}

/// What a caller has given.
#[derive(Debug)]
pub enum Given<'a> {
    /// One for each parameter, in their order.
    InOrder(Cow<'a, [Value]>),
    /// With the names of their parameters.
    Named(Vec<(Cow<'a, str>, Value)>),
}

impl Given<'_> {
    /// The values in the order of the statement's parameters.
    ///
    /// # Errors
    /// When a name is not one of the statement's, or one of these is not given.
    pub(crate) fn for_parameters(
        &self,
        names: impl FnOnce() -> Vec<Option<String>>,
    ) -> Result<Cow<'_, [Value]>, Error> {
        let given = match self {
            Given::InOrder(values) => return Ok(Cow::Borrowed(values)),
            Given::Named(given) => given,
        };
        let names = names();
        let is = |name: &Option<String>, other: &str| name.as_deref() == Some(other);
        let unknown = given.iter().find(|(other, _)| !names.iter().any(|name| is(name, other)));
        if let Some((name, _)) = unknown {
            return Err(Error::refused(format!("the statement has no parameter {name}")));
        }
        let value = |(place, name): (usize, &Option<String>)| {
            let found = given.iter().find(|(other, _)| is(name, other));
            found.map(|(_, value)| value.clone()).ok_or_else(|| {
                let number = place + 1;
                let name = name.as_deref().map_or(String::new(), |name| format!(" ({name})"));
                Error::refused(format!("parameter {number}{name} of the statement has no value"))
            })
        };
        names.iter().enumerate().map(value).collect()
    }

    /// Those that are known without the statement.
    pub(crate) fn in_order(&self) -> &[Value] {
        match self {
            Given::InOrder(values) => values,
            Given::Named(_) => &[],
        }
    }
}

impl<'v> From<&'v [Value]> for Given<'v> {
    fn from(values: &'v [Value]) -> Given<'v> {
        Given::InOrder(Cow::Borrowed(values))
    }
}

macro_rules! params_in_order {
    ($(($($generic:tt)*) $type:ty: $values:ident => $given:expr;)*) => {
        $(impl<$($generic)*> Params for $type {
            fn given<'a>(self) -> Given<'a>
            where
                Self: 'a,
            {
                let $values = self;
                Given::InOrder($given)
            }
        }

        impl<$($generic)*> sealed::Sealed for $type {})*
    };
}

params_in_order! {
    () (): _values => Cow::Borrowed(&[]);
    () &[Value]: values => Cow::Borrowed(values);
    () &&[Value]: values => Cow::Borrowed(*values);
    () &Vec<Value>: values => Cow::Borrowed(values);
    (const LEN: usize) &[Value; LEN]: values => Cow::Borrowed(values);
    () Vec<Value>: values => Cow::Owned(values);
}

macro_rules! params_of_tuples {
    ($($name:ident)*) => {
        params_of_tuples! { @ [] $($name)* }
    };
    (@ [$($before:ident)*] $name:ident $($after:ident)*) => {
        params_in_order! {
            ($($before: Into<Value>,)* $name: Into<Value>) ($($before,)* $name,): values => {
                #[expect(non_snake_case, reason = "a value is called as its type")]
                let ($($before,)* $name,) = values;
                Cow::Owned(vec![$($before.into(),)* $name.into()])
            };
        }
        params_of_tuples! { @ [$($before)* $name] $($after)* }
    };
    (@ [$($before:ident)*]) => {};
}

params_of_tuples! { A B C D E F G H I J K L M N O P }

impl<T: Into<Value>, const LEN: usize> Params for [(&str, T); LEN] {
    fn given<'a>(self) -> Given<'a>
    where
        Self: 'a,
    {
        Given::Named(self.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl<T: Clone + Into<Value>> Params for &[(&str, T)] {
    fn given<'a>(self) -> Given<'a>
    where
        Self: 'a,
    {
        let named = |(name, value): &(&'a str, T)| ((*name).into(), value.clone().into());
        Given::Named(self.iter().map(named).collect())
    }
}

mod sealed {
    use manyhands_sqlite::Value;

    pub trait Sealed {}

    impl<T: Into<Value>, const LEN: usize> Sealed for [(&str, T); LEN] {}
    impl<T: Clone + Into<Value>> Sealed for &[(&str, T)] {}
}
