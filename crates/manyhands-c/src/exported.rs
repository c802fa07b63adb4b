//! How a function of SQLite's interface is defined.

/// Defines functions of SQLite's interface. Each is exported with the prefix `manyhands_`, which `build.sh` takes away.
macro_rules! c_api {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// What SQLite demands of the callers of its function of this name: pointers are null where SQLite allows that, or
        /// are what another of these functions gave.
        #[unsafe(export_name = concat!("manyhands_", stringify!($name)))]
        pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? $body
    )*};
}
