/** What the same program says differently to different databases. Everything else is SQL that all of them understand. */
export interface Dialect {
  /** OpenTelemetry's name of the database system. */
  readonly system: "sqlite" | "postgresql";
  /**
   * Statements that fail by themselves, with `StaleFacts`, unless something is still as it's remembered; they also keep it so
   * until the end of the transaction. Undefined if `Engine.hasChanged` tells for sure that nobody else has written.
   */
  readonly guards:
    | {
        /** Binds a thread's number, seq and generation. */
        readonly thread: string;
        /** Binds an effect's id and checksum. */
        readonly effect: string;
        /** Binds the name of a setting, which must exist. */
        readonly setting: string;
      }
    | undefined;
  /** The same for a thread that was missing when its run started. Undefined if a start remembers no such thing. */
  readonly guardsOfNew:
    | {
        /** Binds the id and the tag of a thread that must not exist, nor its tombstone. Its id must have been locked. */
        readonly thread: string;
        /** Binds the id of a run that must still have its thread, and the thread's id. */
        readonly lease: string;
        /** No key may have been stored. */
        readonly unencrypted: string;
      }
    | undefined;
  /** Follows a SELECT of one table in a transaction that writes: nobody else changes these rows, or locks them so, until its end. */
  readonly forUpdate: string;
  /** {@link forUpdate} that leaves out the rows that others have locked; undefined if a transaction locks all rows at once. */
  readonly skipLocked: string | undefined;
  /** {@link forUpdate} for rows that others may lock in the same way; nobody deletes them. */
  readonly forShare: string;
  /**
   * Makes other transactions that lock the same text wait for this one: for a row that doesn't exist yet. Undefined if only one
   * transaction writes at a time.
   */
  readonly lockText: string | undefined;
  /** Returns, as `value`, the number of a new thread: one that no thread or leftover has or had. */
  readonly takeNumber: string;
  /** Returns, as `now`, the database's clock in milliseconds; undefined if it's this machine's. */
  readonly clock: string | undefined;
  /** SQL: the rows of a list of texts that a parameter binds as JSON, each in the column `value`. */
  readonly texts: (parameter: string) => string;
  /** SQL, behind a column: that it's one of the texts of such a list, or of the integers. An index of the column finds them. */
  readonly among: (parameter: string, type?: "TEXT" | "BIGINT") => string;
  /**
   * SQL, behind FROM: each row of a short list with the rows of a table that belong to it. An index finds them for each row of the list,
   * so that the table isn't read as a whole. `most`: no more rows than that are needed, by their seq.
   */
  readonly eachWith: (list: string, table: string, alias: string, condition: string, most?: string) => string;
  /** SQL: the JSON texts of a column as one JSON list; may be bytes in the encoding of the database (`jsonText`). */
  readonly listed: (column: string) => string;
  /** SQL: whether a column holds bytes, or a text in which another is found. */
  readonly holds: (column: string, text: string) => string;
  /**
   * SQL, within the manifest of a checkpoint: a channel's version, and its entry if it has a value. The channel is its name as it's written
   * in JSON, without quotes: see {@link undecoded}.
   */
  readonly version: (manifest: string, channel: string) => string;
  readonly entry: (manifest: string, channel: string) => string;
  /** SQL, for a manifest: the addresses of the values that are one chunk each. Undefined where reading them later costs no more. */
  readonly wholes: ((manifest: string) => string) | undefined;
  /**
   * SQL for archived rows, where JavaScript's numbers can't hold all integers: a row as JSON, with bytes as `{"hex": …}`, and the
   * value of a column in such JSON. Undefined if JavaScript reads and writes the JSON.
   */
  readonly json:
    | { readonly row: (columns: readonly string[]) => string; readonly value: (json: string, column: string) => string }
    | undefined;
  /** Returns the settings of the database and its server that people ask for: names and values. */
  readonly settings: string;
  /**
   * What the migrations run, and a query for the parts of the schema as it is: kind, table, name and text. See `driftOf`. What `before` says
   * is done before that query, for its transaction alone: settings of the server or the role that would change its texts.
   */
  readonly schema: {
    readonly newest: number;
    readonly sql: string;
    readonly place: string;
    readonly before: string | undefined;
    readonly parts: string;
  };
  /** Ends a recursive query after so many rows, where a damaged index may give rows twice. */
  readonly rowsAtMost: (rows: string) => string;
  /** For a statement that somebody else's transaction carries out: the full name of a table, and a value as it's stored. */
  readonly elsewhere: {
    readonly table: (name: string) => string;
    readonly value: (value: string | Uint8Array) => string | Uint8Array;
    /** Whether rows must be locked there, and nobody may be kept waiting. Otherwise only one transaction writes at a time. */
    readonly locks: boolean;
  };
  /** A column of every table with a text as its key by which it is read fastest; undefined if that's the key. Turns always have one. */
  readonly rowid: string | undefined;
}

/** A text that databases want differently, made once for each. */
export function textFor(make: (dialect: Dialect) => string): (session: { engine: { dialect: Dialect } }) => string {
  const texts = new WeakMap<Dialect, string>();
  return ({ engine: { dialect } }) => {
    let text = texts.get(dialect);
    if (text === undefined) texts.set(dialect, (text = make(dialect)));
    return text;
  };
}

/**
 * SQL for JSON whose strings stand for what is written between their quotes: what an escape means isn't decoded. So any two names stay
 * different ones, also with characters that a database has no text for: U+0000, and halves of surrogate pairs.
 *
 * @param json SQL for compact JSON, in which control characters are escaped
 * @param char the engine's function that gives a character. A backslash in quotes would mean what the server's settings say.
 */
export function undecoded(json: string, char: "char" | "chr"): string {
  const [one, two, backslash] = [`${char}(1)`, `${char}(2)`, `${char}(92)`];
  const double = `${backslash} || ${backslash}`;
  const steps = [
    [double, one],
    [`${backslash} || '"'`, two],
    [backslash, double],
    [two, `${double} || ${backslash} || '"'`],
    [one, `${double} || ${double}`],
  ];
  return steps.reduce((text, [from, to]) => `replace(${text}, ${from}, ${to})`, json);
}
