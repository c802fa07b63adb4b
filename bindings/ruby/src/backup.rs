//! `Manyhands::Backup`: copies the pages of one database to another.

use core::cell::{Cell, OnceCell};
use core::ptr;
use std::sync::Arc;

use magnus::gc::Marker;
use magnus::value::Opaque;
use magnus::{
    Class, DataTypeFunctions, Error, Module, RModule, RString, Ruby, TryConvert, TypedData, Value,
    method,
};

use crate::connection::{Connection, Entered, Garbage};
use crate::database::Database;
use crate::error::refusal;
use crate::ffi::{self, sqlite};
use crate::value;

/// `Manyhands::Backup`.
#[derive(TypedData)]
#[magnus(class = "Manyhands::Backup", free_immediately, mark)]
pub(crate) struct Backup {
    /// Null before it begins and after it was finished.
    raw: Cell<*mut ffi::sqlite3_backup>,
    ends: OnceCell<Ends>,
}

/// The connections: from where, and to where.
struct Ends {
    source: Arc<Connection>,
    target: Arc<Connection>,
    objects: [Opaque<Value>; 2],
}

// SAFETY: all of it is used with the GVL, or by who has entered both connections.
unsafe impl Send for Backup {}

impl Default for Backup {
    fn default() -> Backup {
        Backup { raw: Cell::new(ptr::null_mut()), ends: OnceCell::new() }
    }
}

impl DataTypeFunctions for Backup {
    fn mark(&self, marker: &Marker) {
        if let Some(ends) = self.ends.get() {
            marker.mark_slice(&ends.objects);
        }
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if let (Some(ends), false) = (self.ends.get(), self.raw.get().is_null()) {
            ends.target.throw_away(Garbage::Backup(self.raw.get()));
        }
    }
}

impl Ends {
    /// Enters both, in the order of their addresses: no two threads wait for each other.
    fn enter<'a>(&'a self, ruby: &Ruby) -> Result<(Entered<'a>, Entered<'a>), Error> {
        if Arc::as_ptr(&self.source) < Arc::as_ptr(&self.target) {
            let source = self.source.enter(ruby)?;
            Ok((source, self.target.enter(ruby)?))
        } else {
            let target = self.target.enter(ruby)?;
            Ok((self.source.enter(ruby)?, target))
        }
    }
}

impl Backup {
    fn initialize(
        ruby: &Ruby,
        this: &Backup,
        target: Value,
        target_name: RString,
        source: Value,
        source_name: RString,
    ) -> Result<(), Error> {
        let closed = |text| Error::new(ruby.exception_arg_error(), text);
        let from = <&Database>::try_convert(source)?
            .connection(ruby)
            .map_err(|_| closed("cannot backup from a closed database"))?;
        let to = <&Database>::try_convert(target)?
            .connection(ruby)
            .map_err(|_| closed("cannot backup to a closed database"))?;
        let (target_name, source_name) = (value::c_text(target_name)?, value::c_text(source_name)?);
        let objects = [Opaque::from(source), Opaque::from(target)];
        let ends = this.ends.get_or_init(|| Ends { source: from, target: to, objects });
        let (source, target) = ends.enter(ruby)?;
        let (from, to) = (source.db(ruby)?, target.db(ruby)?);
        let raw = target.wait(ruby, move || {
            let (target_name, source_name) = (target_name.as_ptr(), source_name.as_ptr());
            sqlite!(sqlite3_backup_init(to, target_name, from, source_name))
        })?;
        if raw.is_null() {
            return target.check(ruby, sqlite!(sqlite3_errcode(to)));
        }
        this.raw.set(raw);
        Ok(())
    }

    /// Calls `work` with the backup.
    fn call<T>(
        &self,
        ruby: &Ruby,
        work: impl FnOnce(*mut ffi::sqlite3_backup, &Entered<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let closed = || refusal(ruby, "cannot use a closed backup");
        let ends = self.ends.get().ok_or_else(closed)?;
        let (_source, target) = ends.enter(ruby)?;
        if self.raw.get().is_null() {
            return Err(closed());
        }
        work(self.raw.get(), &target)
    }

    fn step(ruby: &Ruby, this: &Backup, pages: i32) -> Result<i32, Error> {
        this.call(ruby, |raw, target| {
            target.wait(ruby, move || sqlite!(sqlite3_backup_step(raw, pages)))
        })
    }

    fn finish(ruby: &Ruby, this: &Backup) -> Result<(), Error> {
        this.call(ruby, |raw, target| {
            this.raw.set(ptr::null_mut());
            target.wait(ruby, move || sqlite!(sqlite3_backup_finish(raw)))
        })?;
        Ok(())
    }

    fn remaining(ruby: &Ruby, this: &Backup) -> Result<i32, Error> {
        this.call(ruby, |raw, _| Ok(sqlite!(sqlite3_backup_remaining(raw))))
    }

    fn pagecount(ruby: &Ruby, this: &Backup) -> Result<i32, Error> {
        this.call(ruby, |raw, _| Ok(sqlite!(sqlite3_backup_pagecount(raw))))
    }
}

pub(crate) fn define(ruby: &Ruby, module: RModule) -> Result<(), Error> {
    let class = module.define_class("Backup", ruby.class_object())?;
    class.define_alloc_func::<Backup>();
    class.define_method("initialize", method!(Backup::initialize, 4))?;
    class.define_method("step", method!(Backup::step, 1))?;
    class.define_method("finish", method!(Backup::finish, 0))?;
    class.define_method("remaining", method!(Backup::remaining, 0))?;
    class.define_method("pagecount", method!(Backup::pagecount, 0))
}
