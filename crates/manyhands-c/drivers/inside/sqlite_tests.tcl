# Runs one of SQLite's own test files (test/*.test of its source) with the package sqlite3 of this Tcl, and not with `testfixture`, which is SQLite's own
# build for them: tclsh sqlite_tests.tcl FILE. What only that build has is missing: a test that asks for it fails, with plain SQLite as with any other
# library.
#
# The file's own tester.tcl does the testing. Here is what it needs to begin: commands that only count or configure do nothing, and a feature is there
# if SQLite was compiled with it, or without the option that leaves it out.

package require sqlite3
set file [file normalize [lindex $argv 0]]
cd $env(TMPDIR)

foreach command {
  sqlite3_clear_tsd_memdebug sqlite3_config sqlite3_config_memstatus sqlite3_config_pagecache sqlite3_config_lookaside
  sqlite3_enable_shared_cache sqlite3_initialize sqlite3_memdebug_backtrace sqlite3_memdebug_dump sqlite3_memdebug_fail sqlite3_memdebug_log
  sqlite3_memdebug_malloc_count sqlite3_memdebug_pending sqlite3_memdebug_settitle sqlite3_memory_highwater sqlite3_memory_used
  sqlite3_reset_auto_extension sqlite3_shutdown sqlite3_soft_heap_limit64 sqlite3_hard_heap_limit64 sqlite3_soft_heap_limit sqlite3_status sqlite3_test_control_pending_byte
  autoinstall_test_functions install_malloc_faultsim database_never_corrupt database_may_be_corrupt clang_sanitize_address vfs_unlink_test working_64bit_int
  extra_schema_checks optimization_control register_echo_module abuse_create_function register_wholenumber_module
} {
  proc $command {args} { return 0 }
}
proc sqlite3_connection_pointer {db} { return $db }
foreach variable {
  sqlite3_search_count sqlite_open_file_count sqlite_sort_count sqlite_like_count sqlite3_sort_count sqlite_interrupt_count sqlite3_xferopt_count
  sqlite3_max_blobsize sqlite3_opentemp_count sqlite3_found_count sqlite3_pager_readdb_count sqlite3_pager_writedb_count sqlite3_pager_pgfree_count
  sqlite_sync_count sqlite_fullsync_count sqlite_current_time
} {
  set $variable 0
}
array set sqlite_static_bind_value {}
set TEMP_STORE 1
set SQLITE_MAX_LENGTH 1000000000
foreach {limit value} {
  COLUMN 2000 SQL_LENGTH 1000000000 EXPR_DEPTH 1000 COMPOUND_SELECT 500 VDBE_OP 250000000 FUNCTION_ARG 127 ATTACHED 10 VARIABLE_NUMBER 250000
  PAGE_SIZE 65536 PAGE_COUNT 4294967294 LIKE_PATTERN_LENGTH 50000 TRIGGER_DEPTH 1000 WORKER_THREADS 8
} {
  set SQLITE_MAX_$limit $value
}
set SQLITE_DEFAULT_PAGE_SIZE 4096
set SQLITE_DEFAULT_CACHE_SIZE -2000
set bitmask_size 64

# Features: what was compiled in needs an ENABLE, and nearly all of the rest is there.
sqlite3 compiled :memory:
set compile_options [compiled eval {PRAGMA compile_options}]
compiled close
proc has_feature {array name operation} {
  if {![info exists ::sqlite_options($name)]} {
    set enabled "ENABLE_[string toupper $name]"
    set absent {
      8_3_names allow_uri_authority atomicwrite autoreset bitmask codec crashtest curdir debug default_autovacuum deserialize_codec direct_read
      explain_comments fts3_unicode fts3 fts4 fts5 geopoly icu icu_collations json1 like_match_blobs load_ext lock_proxy_pragmas long_double
      memdebug mem3 mem5 memorymanage mmap multiplex_ext_overwrite mutex_noop null_trim offset_sql_func oversize_cell_check prefer_proxy_locking
      rtree rtree_int_only secure_delete session snapshot sqllog stat4 stmtvtab sorter_ref threadsafe1 threadsafe2 unlock_notify
      update_delete_limit userauth win32malloc zerodamage zipvfs dbpage_vtab dbstat normalize preupdate
    }
    set is_there [expr {[lsearch $absent $name] < 0 || [lsearch $::compile_options $enabled] >= 0}]
    set ::sqlite_options($name) $is_there
  }
}
array set sqlite_options {threadsafe 1 mmap 1 default_autovacuum 0 lookaside 1 fts3 1 fts5 1 rtree 1 json1 1}
trace add variable sqlite_options read has_feature

set argv0 $file
set argv {}
source $file
