import fc from "fast-check";
import { type DefinedEffect, defineEffect } from "langgraph-checkpoint-turns";
import { attached, closeAll, fresh, line, open, refusal, thread } from "../support/eff-world";
import { runs } from "../support/lane";
import { config } from "../support/undo-world";
import { failing, type Place, PLACES, preparedForFaults } from "./tx-faults";
import { LIBRARIES, testOf } from "./tx-libraries";
import { type Bank, then } from "./tx-world";

/** The user's database fails outside of the functions of an effect: that never decides about the effect for good. */
const empty = { log: [] as string[] };
const OF_DATABASE = { code: expect.stringMatching(/^STORE_(UNAVAILABLE|BUSY|FAILED)$/) as string };
/** Long enough for a connection to be made on a busy machine. */
const PATIENCE_MS = process.env["TURNS_ENGINE"] === "postgres" ? 1_000 : 50;

afterEach(closeAll);

describe.each(LIBRARIES)("a database that fails, by $name", (library) => {
  const test = testOf(library);
  let bank: Bank;
  beforeAll(async () => {
    bank = await library.open(PATIENCE_MS);
    await preparedForFaults(bank);
    await bank.tx.find({ key: "none", threadId: "t", name: "e", tries: 1 });
  });
  afterAll(() => bank.close());
  beforeEach(() => bank.sql("DELETE FROM charges"));

  let made = 0;
  /** A thread whose node charges. Each error that `onError` sees is final. */
  function charging(fails: () => unknown = () => undefined) {
    const seen = { runs: 0, undos: 0, errors: [] as unknown[] };
    const charge = defineEffect(`failing ${library.name} ${++made}`, {
      tx: bank.tx,
      run: ({ cents }: { cents: number }, { db, key }: { db: unknown; key: string }) => {
        seen.runs += 1;
        return then(bank.charge(db, key, cents), () => then(fails(), () => `paid ${seen.runs}`));
      },
      undo: ({ db, key }: { db: unknown; key: string }) => {
        seen.undos += 1;
        return bank.refund(db, key);
      },
      onError: (error: unknown) => (seen.errors.push(error), "final"),
    } as never) as unknown as DefinedEffect<{ cents: number }, string>;
    const saver = open(fresh());
    const graph = attached(saver, line({ n: async () => ({ log: [await charge({ cents: 5 })] }) }));
    const status = async () => (await saver.effects.list("t")).at(-1)?.status;
    return {
      ...{ seen, saver, status },
      run: (task: string) => graph.invoke(empty, config(task)),
      resume: () => graph.invoke(null, thread()),
    };
  }

  test.each(PLACES)("S9.6 a transaction that fails at %s is never final: the next run does it, once", async (place) => {
    const { seen, saver, status, run, resume } = charging();
    const repaired = await failing(bank, place);
    expect(await refusal(run("a"))).toMatchObject({ ...OF_DATABASE, cause: expect.anything() as unknown });
    await repaired();
    expect(seen.errors).toEqual([]);
    expect(await status()).toBe("failed");
    expect(await bank.charges()).toEqual([]);
    await resume();
    const [effect] = await saver.effects.list("t");
    expect(effect).toMatchObject({ status: "done", tries: 2 });
    expect(await bank.charges()).toEqual([{ key: effect!.key, cents: 5 }]);
  });

  test.each(PLACES.filter((place) => place !== "its beginning"))(
    "S9.6 a transaction that another one got in the way of at %s, as PostgreSQL tells it, is STORE_BUSY, which a retry is for",
    async (place) => {
      if (bank.env["BANK_SCHEMA"] === undefined) return;
      const { run } = charging();
      const repaired = await failing(bank, place);
      const caught = await refusal(run("a"));
      await repaired();
      expect(caught).toMatchObject({ code: "STORE_BUSY", message: expect.stringContaining("got in the way") as string });
    },
  );

  test("S9.6 an error of the user's own statement is the function's: onError says what it means", async () => {
    const { seen, status, run, resume } = charging();
    await bank.sql("CREATE UNIQUE INDEX once ON charges (cents)");
    await bank.sql("INSERT INTO charges VALUES ('other', 5)");
    const caught = await refusal(run("a"));
    expect(seen.errors).toEqual([caught]);
    expect(caught).not.toMatchObject(OF_DATABASE);
    expect(await status()).toBe("failed-for-good");
    await bank.sql("DROP INDEX once");
    expect(await refusal(resume())).toMatchObject({ message: caught.message });
    expect(seen.runs).toBe(1);
  });

  test.each(PLACES.filter((place) => place !== "its completion row"))(
    "S9.6 an undo whose transaction fails at %s: the same rewind undoes it, once",
    async (place) => {
      const { saver, run } = charging();
      for (const task of ["a", "b"]) await run(task);
      const repaired = await failing(bank, place);
      const request = { threadId: "t", toTask: "a" };
      const caught = await refusal(saver.rewind(request));
      await repaired();
      expect(caught).toMatchObject({ code: "UNDO_FAILED", cause: OF_DATABASE });
      expect(await bank.charges()).toHaveLength(2);
      expect((await saver.rewind(request)).effects.undone).toHaveLength(1);
      expect(await bank.charges()).toHaveLength(1);
    },
  );

  test("S9.6 what the completion table keeps fits into every encoding, and is read as it was", async () => {
    const result = { "ключ é": ["😀", "日本", "\ud800", "\\u00e9", "\u007f\u0080\uffff", "it's \""] };
    const told = defineEffect(`any text ${library.name}`, { tx: bank.tx, run: () => result, undo: false } as never);
    const saver = open(fresh());
    const results: unknown[] = [];
    const graph = attached(saver, line({ n: async () => (results.push(await (told as any)()), {}) }));
    await graph.invoke(empty, config("a"));
    const { key } = (await saver.effects.list("t"))[0]!;
    expect(results).toEqual([result]);
    const text = await bank.tx.find({ key, threadId: "t", name: "e", tries: 1 });
    expect(text).toMatch(/^[ -\x7f]+$/);
    expect(JSON.parse(text!)).toEqual(result);
  });

  const fault = fc.constantFrom<Place | "its function" | "nothing">(
    ...PLACES.filter((place) => place !== "its beginning"),
    ...(["its function", "nothing"] as const),
  );

  test("S9.6 no matter what fails in any order: only the function's own error is final, and else it happens exactly once", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fault, { maxLength: 4 }), async (faults) => {
        await bank.sql("DELETE FROM charges");
        const own = new RangeError("insufficient funds");
        let now: (typeof faults)[number] = "nothing";
        const { seen, status, run, resume } = charging(() => {
          if (now === "its function") throw own;
        });
        const isFinal = faults.find((each) => each === "its function" || each === "nothing") === "its function";
        for (const [index, each] of [...faults, "nothing" as const].entries()) {
          now = each;
          const repaired = each === "its function" || each === "nothing" ? undefined : await failing(bank, each);
          await (index === 0 ? run("a") : resume()).catch(() => undefined);
          await repaired?.();
        }
        expect(await status()).toBe(isFinal ? "failed-for-good" : "done");
        expect(await bank.charges()).toHaveLength(isFinal ? 0 : 1);
        expect(seen.errors).toEqual(isFinal ? [own] : []);
      }),
      { numRuns: runs(6, 60) },
    );
  });
});
