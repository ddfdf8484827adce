import type { Bank } from "./tx-world";

/** Places outside of the user's function at which a transaction may fail. */
export const PLACES = ["its beginning", "the claim of its key", "its completion row", "its COMMIT"] as const;
export type Place = (typeof PLACES)[number];

/** Every transaction of effects fails at this place, from now on. The function that is returned repairs it. */
export async function failing(bank: Bank, place: Place): Promise<() => Promise<unknown>> {
  if (place === "its beginning") return bank.occupied();
  const isPostgres = bank.env["BANK_SCHEMA"] !== undefined;
  await bank.sql((isPostgres ? ON_POSTGRES : ON_SQLITE)[place]);
  return () => bank.sql(`DROP TRIGGER fault${isPostgres ? " ON turns_completions" : ""}`);
}

/** What the faults of {@link failing} need. */
export async function preparedForFaults(bank: Bank): Promise<void> {
  await bank.tx.setup();
  await bank.sql("CREATE TABLE deferred (id int PRIMARY KEY, other int REFERENCES deferred DEFERRABLE INITIALLY DEFERRED)");
  if (bank.env["BANK_SCHEMA"] === undefined) return;
  await bank.sql(`CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the database is in trouble' USING ERRCODE = '40001'; END $$`);
}

type Triggers = Record<Exclude<Place, "its beginning">, string>;
const ON_POSTGRES: Triggers = {
  "the claim of its key": "CREATE TRIGGER fault BEFORE INSERT ON turns_completions FOR EACH ROW EXECUTE FUNCTION fault()",
  "its completion row": "CREATE TRIGGER fault BEFORE UPDATE ON turns_completions FOR EACH ROW EXECUTE FUNCTION fault()",
  "its COMMIT": `CREATE CONSTRAINT TRIGGER fault AFTER UPDATE ON turns_completions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION fault()`,
};
const fault = "BEGIN SELECT RAISE(ABORT, 'the database is in trouble'); END";
const ON_SQLITE: Triggers = {
  "the claim of its key": `CREATE TRIGGER fault BEFORE INSERT ON turns_completions ${fault}`,
  "its completion row": `CREATE TRIGGER fault BEFORE UPDATE ON turns_completions ${fault}`,
  "its COMMIT": "CREATE TRIGGER fault AFTER UPDATE ON turns_completions BEGIN INSERT INTO deferred VALUES (1, 2); END",
};
