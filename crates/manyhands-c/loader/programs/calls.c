/* Calls through the loader, each with what it must come to; test_loader.py builds it with the flags that drivers use. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "sqlite3.h"

int main(int count, char **words) {
  sqlite3 *database;
  sqlite3_stmt *statement;
  int on = -1;
  char *text;
  /* A program that never calls SQLite is not disturbed when the library is absent. */
  if (count > 1 && strcmp(words[1], "quiet") == 0) return puts("quiet") < 0;

  /* Arguments in registers and on the stack, integers and doubles: nothing gets lost on the way. */
  text = sqlite3_mprintf("%s %d %d %d %d %d %d %d %.1f %.1f", "a", 1, 2, 3, 4, 5, 6, 7, 8.5, 9.5);
  assert(strcmp(text, "a 1 2 3 4 5 6 7 8.5 9.5") == 0);
  sqlite3_free(text);

  assert(strcmp(sqlite3_version, sqlite3_libversion()) == 0);
  assert(sqlite3_libversion_number() == SQLITE_VERSION_NUMBER);

  sqlite3_temp_directory = sqlite3_mprintf("%s", "/nowhere");
  assert(sqlite3_open(":memory:", &database) == SQLITE_OK);
  assert(sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_FKEY, 1, &on) == SQLITE_OK && on == 1);
  assert(sqlite3_prepare_v2(database, "PRAGMA temp_store_directory", -1, &statement, 0) == SQLITE_OK);
  assert(sqlite3_step(statement) == SQLITE_ROW);
  assert(strcmp((const char *)sqlite3_column_text(statement, 0), "/nowhere") == 0);
  sqlite3_finalize(statement);
  /* The library frees its own variable, and the program sees it. */
  assert(sqlite3_exec(database, "PRAGMA temp_store_directory=''", 0, 0, 0) == SQLITE_OK);
  assert(sqlite3_temp_directory == 0 || *sqlite3_temp_directory == 0);
  assert(sqlite3_close(database) == SQLITE_OK);
  return puts("called") < 0;
}
