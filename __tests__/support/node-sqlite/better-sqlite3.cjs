/**
 * Stands in for better-sqlite3 in tests on a Node that its binary was not compiled for: what the tests use of it, on `node:sqlite`.
 * Tests look into files with it, and LangGraph's own SqliteSaver writes with it. The package itself never gets it (./hook.mjs): it has its
 * own driver, in src/store/sqlite/, and this one is apart from it so that one mistake does not hide in both.
 */
"use strict";
const { Buffer } = require("node:buffer");
const { existsSync } = require("node:fs");
const { dirname, resolve } = require("node:path");
const { DatabaseSync } = require("node:sqlite");

const PRIMARY = [
  ..."OK ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL EMPTY SCHEMA".split(
    " ",
  ),
  ..."TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB NOTICE WARNING".split(" "),
];
const EXTENDED = {
  261: "BUSY_RECOVERY",
  517: "BUSY_SNAPSHOT",
  264: "READONLY_RECOVERY",
  520: "READONLY_CANTLOCK",
  1032: "READONLY_DBMOVED",
  1544: "READONLY_DIRECTORY",
  266: "IOERR_READ",
  522: "IOERR_SHORT_READ",
  778: "IOERR_WRITE",
  1034: "IOERR_FSYNC",
  267: "CORRUPT_VTAB",
  779: "CORRUPT_INDEX",
  275: "CONSTRAINT_CHECK",
  787: "CONSTRAINT_FOREIGNKEY",
  1299: "CONSTRAINT_NOTNULL",
  1555: "CONSTRAINT_PRIMARYKEY",
  1811: "CONSTRAINT_TRIGGER",
  2067: "CONSTRAINT_UNIQUE",
  2579: "CONSTRAINT_ROWID",
  3091: "CONSTRAINT_DATATYPE",
};

class SqliteError extends Error {
  constructor(message, code) {
    super(message);
    this.name = "SqliteError";
    this.code = code;
  }
}

function attempt(work) {
  try {
    return work();
  } catch (error) {
    if (typeof error.errcode !== "number") throw error;
    throw new SqliteError(error.message, `SQLITE_${EXTENDED[error.errcode] ?? PRIMARY[error.errcode & 0xff]}`);
  }
}

class Statement {
  #db;
  #statement;
  #told;
  #shape = "row";
  #safe;

  constructor(db, statement, source, { told, safe }) {
    this.#db = db;
    this.#statement = statement;
    this.#told = told;
    this.#safe = safe;
    this.source = source;
    statement.setReadBigInts(true);
  }

  get database() {
    return this.#db;
  }

  get reader() {
    return this.#statement.columns().length > 0;
  }

  run(...parameters) {
    if (this.reader) throw new TypeError("This statement returns data. Use get(), all(), or iterate() instead");
    this.#told(this.source, parameters);
    const { changes, lastInsertRowid } = attempt(() => this.#statement.run(...bound(parameters)));
    return { changes: Number(changes), lastInsertRowid: this.#safe ? lastInsertRowid : Number(lastInsertRowid) };
  }

  get(...parameters) {
    if (!this.reader) throw new TypeError("This statement does not return data. Use run() instead");
    this.#told(this.source, parameters);
    const row = attempt(() => this.#statement.get(...bound(parameters)));
    return row === undefined ? undefined : this.#shaped(row);
  }

  all(...parameters) {
    if (!this.reader) throw new TypeError("This statement does not return data. Use run() instead");
    this.#told(this.source, parameters);
    return attempt(() => this.#statement.all(...bound(parameters))).map((row) => this.#shaped(row));
  }

  *iterate(...parameters) {
    this.#told(this.source, parameters);
    for (const row of this.#statement.iterate(...bound(parameters))) yield this.#shaped(row);
  }

  columns() {
    return this.#statement.columns();
  }

  pluck(toggle = true) {
    this.#shape = toggle ? "first" : "row";
    return this;
  }

  raw(toggle = true) {
    this.#shape = toggle ? "list" : "row";
    return this;
  }

  safeIntegers(toggle = true) {
    this.#safe = toggle;
    return this;
  }

  #shaped(row) {
    const entries = Object.entries(row).map(([name, value]) => [name, this.#value(value)]);
    if (this.#shape === "first") return entries[0]?.[1];
    return this.#shape === "list" ? entries.map(([, value]) => value) : Object.fromEntries(entries);
  }

  #value(value) {
    if (typeof value === "bigint") return this.#safe ? value : Number(value);
    return ArrayBuffer.isView(value) ? Buffer.from(value) : value;
  }
}

class Database {
  #db;
  #told;
  #safe = false;

  /** @param filename or what `serialize` gave, which is opened in memory */
  constructor(filename = "", { readonly = false, fileMustExist = false, timeout = 5000, verbose } = {}) {
    const image = Buffer.isBuffer(filename) ? filename : undefined;
    const name = image === undefined ? filename.trim() : ":memory:";
    this.memory = name === "" || name === ":memory:";
    if (!this.memory && !existsSync(dirname(name))) {
      throw new TypeError("Cannot open database because the directory does not exist");
    }
    if (fileMustExist && !existsSync(name)) throw new SqliteError("unable to open database file", "SQLITE_CANTOPEN");
    // Tests write into sqlite_schema, which `node:sqlite` forbids where nobody asks for it.
    const options = { readOnly: readonly, timeout, defensive: false };
    this.#db = attempt(() => new DatabaseSync(this.memory ? ":memory:" : resolve(name), options));
    if (image !== undefined) attempt(() => this.#db.deserialize(image));
    this.#told = (text, parameters = []) => verbose?.(expanded(text, parameters));
    this.name = image === undefined ? filename : name;
    this.readonly = readonly;
  }

  get open() {
    return this.#db.isOpen;
  }

  get inTransaction() {
    return this.open && this.#db.isTransaction;
  }

  prepare(source) {
    if (!this.open) throw new TypeError("The database connection is not open");
    return new Statement(
      this,
      attempt(() => this.#db.prepare(source)),
      source,
      { told: this.#told, safe: this.#safe },
    );
  }

  exec(source) {
    if (!this.open) throw new TypeError("The database connection is not open");
    this.#told(source);
    attempt(() => this.#db.exec(source));
    return this;
  }

  pragma(source, { simple = false } = {}) {
    const statement = attempt(() => this.#db.prepare(`PRAGMA ${source}`));
    this.#told(`PRAGMA ${source}`);
    const rows = attempt(() => statement.all()).map((row) => ({ ...row }));
    return simple ? Object.values(rows[0] ?? {})[0] : rows;
  }

  transaction(fn) {
    const begun =
      (begin) =>
      (...args) => {
        const nested = this.inTransaction;
        this.exec(nested ? "SAVEPOINT stand_in" : begin);
        try {
          const result = fn(...args);
          this.exec(nested ? "RELEASE stand_in" : "COMMIT");
          return result;
        } catch (error) {
          if (this.inTransaction) this.exec(nested ? "ROLLBACK TO stand_in; RELEASE stand_in" : "ROLLBACK");
          throw error;
        }
      };
    const kinds = { deferred: begun("BEGIN DEFERRED"), immediate: begun("BEGIN IMMEDIATE"), exclusive: begun("BEGIN EXCLUSIVE") };
    return Object.assign(begun("BEGIN"), kinds);
  }

  function(name, ...rest) {
    this.#db.function(name, ...rest);
    return this;
  }

  serialize() {
    return Buffer.from(this.#db.serialize());
  }

  defaultSafeIntegers(toggle = true) {
    this.#safe = toggle;
    return this;
  }

  unsafeMode() {
    return this;
  }

  close() {
    if (this.open) this.#db.close();
    return this;
  }
}

/** A statement with its values in it, as `verbose` is told. */
function expanded(text, parameters) {
  const values = bound(parameters);
  return text.replace(/\?(\d*)/g, (_, number) => JSON.stringify(number === "" ? values.shift() : values[0]?.[number]) ?? "NULL");
}

/** An array is a list of values, as several arguments are. */
function bound(parameters) {
  return parameters.flat().map((value) => value ?? null);
}

module.exports = Database;
module.exports.SqliteError = SqliteError;
