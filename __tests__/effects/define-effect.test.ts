import fc from "fast-check";
import { runInThisContext } from "node:vm";
import { type DefinedEffect, defineEffect, type EffectDefinition, GraphRunner, type UndoCall } from "langgraph-checkpoint-turns";
import { definitionNamed } from "../../src/testing-internal";
import { attached, closeAll, Deeds, fresh, line, type NodeBody, open, refusal, thread, told } from "../support/eff-world";
import { KEY } from "../support/enc-graph";
import { runs } from "../support/lane";
import { longTest } from "../support/lane-test";
import { everythingIn } from "../support/s1-tools";
import { config } from "../support/undo-world";

afterEach(closeAll);

const empty = { log: [] as string[] };
const TO_A = { threadId: "t", toTask: "a" };

interface Issue {
  number: number;
  title: string;
}

/** A tracker, which can be asked by marker. */
class Tracker {
  readonly issues = new Map<string, Issue>();
  readonly closed: number[] = [];
  readonly create = async (title: string, marker: string): Promise<Issue> => {
    const issue = { number: this.issues.size + 1, title };
    this.issues.set(marker, issue);
    return issue;
  };
  readonly find = async (marker: string): Promise<Issue | undefined> => this.issues.get(marker);
  readonly close = (number: number): void => void this.closed.push(number);
}

let made = 0;
/** A definition as in the documentation, by a name of its own. */
function trackerEffect(tracker: Tracker, more: Partial<EffectDefinition<{ title: string }, Issue>> = {}) {
  return defineEffect(`issue ${++made}`, {
    run: ({ title }: { title: string }, { key }) => tracker.create(title, key),
    probe: ({ key }) => tracker.find(key),
    undo: ({ result }) => tracker.close(result.number),
    ...more,
  });
}

type Undo = (call: UndoCall) => unknown;
type Define = <I, R>(name: string, definition: EffectDefinition<I, R>) => DefinedEffect<I, R>;
/** A module that makes effects, loaded under this URL. */
function loadedAs(url: string): Define {
  const code = "(define) => (name, definition) => define(name, definition)";
  return (runInThisContext(code, { filename: url }) as (define: typeof defineEffect) => Define)(defineEffect);
}

/** Runs one node as a task. */
function running(body: NodeBody, path = fresh()) {
  const saver = open(path);
  const graph = attached(saver, line({ n: body }));
  const invoke = (taskId: string) => graph.invoke(empty, config(taskId));
  return { saver, graph, path, invoke, resume: () => graph.invoke(null, thread()) };
}

/** Leaves an effect in doubt, as a process does that dies in it. */
async function inDoubt(world: ReturnType<typeof running>, taskId = "a"): Promise<void> {
  expect(await refusal(world.invoke(taskId))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
}

describe("S8.2 a defined effect is an effect", () => {
  test("S8.2 S2.9 its input and result are in the journal, it replays, and inputs and ids tell calls apart", async () => {
    const tracker = new Tracker();
    const issue = trackerEffect(tracker);
    const numbers: number[] = [];
    let fails = true;
    const { saver, invoke, resume } = running(async () => {
      for (const title of ["x", "y"]) numbers.push((await issue({ title })).number);
      numbers.push((await issue({ title: "y" }, { id: "second" })).number);
      if (fails) throw new Error("node failed");
      return {};
    });
    await refusal(invoke("a"));
    fails = false;
    await resume();
    expect(numbers).toEqual([1, 2, 3, 1, 2, 3]);
    expect([...tracker.issues.values()].map(({ title }) => title)).toEqual(["x", "y", "y"]);
    const effects = await saver.effects.list("t");
    expect(effects.map(({ name, label, undo }) => [name, label, undo])).toEqual(
      ["#0", "#1", "id:second"].map((label) => [issue.effectName, label, issue.effectName]),
    );
    expect([...tracker.issues.keys()]).toEqual(effects.map(({ key }) => key));
    expect(await saver.effects.get(effects[1]!.id)).toMatchObject({ input: { title: "y" }, result: { number: 2, title: "y" } });
  });

  test("S8.2 S2.9 in doubt, its probe gets the key and the input; without one it stops", async () => {
    const asked: unknown[] = [];
    let runs = 0;
    const definition: EffectDefinition<{ cents: number }, string> = {
      run: () => (runs++, Promise.reject(new Error("lost"))),
      onError: "unknown",
    };
    const blind = defineEffect("doubt without a probe", definition);
    const probe = (call: { key: string; input: { cents: number } }) => (asked.push(call), "paid");
    const sighted = defineEffect("doubt with a probe", { ...definition, probe });
    for (const [pay, result] of [
      [blind, undefined],
      [sighted, "paid"],
    ] as const) {
      const world = running(async () => ({ log: [await pay({ cents: 5 })] }));
      await inDoubt(world);
      if (result === undefined) expect(await refusal(world.resume())).toMatchObject({ code: "EFFECT_IN_DOUBT" });
      else expect(await world.resume()).toMatchObject({ log: ["paid"] });
      const [effect] = await world.saver.effects.list("t");
      if (result !== undefined) expect(asked).toEqual([{ key: effect!.key, input: { cents: 5 } }]);
    }
    expect(runs).toBe(2);
  });

  test("S8.2 S2.9 declared idempotent it runs again with the same key; an error that is final comes again", async () => {
    const keys: string[] = [];
    const again = defineEffect("again", {
      run: (_: void, { key }) => {
        if (keys.push(key) === 1) throw new Error("timeout");
        return "done";
      },
      idempotent: true,
      onError: "unknown",
    });
    const world = running(async () => ({ log: [await again()] }));
    await inDoubt(world);
    expect(await world.resume()).toMatchObject({ log: ["done"] });
    expect([keys.length, new Set(keys).size]).toEqual([2, 1]);

    let calls = 0;
    const never = defineEffect("never", { run: () => Promise.reject<string>(new Error(`no ${++calls}`)), onError: "final" });
    const refused = running(async () => ({ log: [await never()] }));
    for (const run of [() => refused.invoke("a"), refused.resume]) expect((await refusal(run())).message).toBe("no 1");
  });

  test("S8.2 S2.9 another input is refused when it is met again, unless it accepts that", async () => {
    for (const onInputChange of ["refuse", "accept"] as const) {
      const tracker = new Tracker();
      const issue = trackerEffect(tracker, { onInputChange });
      let nth = 0;
      const world = running(async () => {
        const { title } = await issue({ title: `title ${++nth}` });
        if (nth === 1) throw new Error("node failed");
        return { log: [title] };
      });
      await refusal(world.invoke("a"));
      if (onInputChange === "accept") expect(await world.resume()).toMatchObject({ log: ["title 1"] });
      else expect(await refusal(world.resume())).toMatchObject({ code: "EFFECT_CHANGED" });
      expect(tracker.issues.size).toBe(1);
    }
  });

  test("S8.2 an input that can't be saved is refused, and nothing is done; so is a call outside of a node, and an option that is none", async () => {
    let runs = 0;
    const odd = defineEffect("odd", { run: (_: { callback: unknown }) => ++runs });
    const { invoke } = running(async () => ({ log: [String(await odd({ callback: () => 1 }))] }));
    expect(await refusal(invoke("a"))).toMatchObject({
      code: "UNSERIALIZABLE_VALUE",
      data: { path: "input.callback", name: "odd" },
    });
    expect(await refusal(odd({ callback: 1 }))).toMatchObject({ code: "EFFECT_OUTSIDE_NODE" });
    expect(await refusal(odd({ callback: 1 }, { idd: "x" } as never))).toMatchObject({ code: "INVALID_OPTION" });
    expect(runs).toBe(0);
  });

  test("S8.2 S3.6 in an encrypted file neither its input nor its result can be read, and its undo gets both", async () => {
    const path = fresh();
    const calls: unknown[] = [];
    const secret = defineEffect("secret", {
      run: ({ password }: { password: string }) => ({ token: `token of ${password}` }),
      undo: ({ input, result }) => calls.push([input.password, result.token]),
    });
    const saver = open(path, { encryption: { key: KEY } });
    const graph = attached(
      saver,
      line({ n: async () => ({ log: [(await secret({ password: "Swordfish" })).token.slice(0, 5)] }) }),
    );
    await graph.invoke(empty, config("a"));
    await graph.invoke(empty, config("b"));
    expect(everythingIn(path).includes("Swordfish")).toBe(false);
    await saver.rewind(TO_A);
    expect(calls).toEqual([["Swordfish", "token of Swordfish"]]);
  });

  test("S8.2 its definition may be an instance of a class", async () => {
    const done: string[] = [];
    class Definition {
      note(what: string): void {
        done.push(what);
      }
      run({ what }: { what: string }): string {
        this.note(`did ${what}`);
        return what;
      }
      undo({ result }: UndoCall<{ what: string }, string>): void {
        this.note(`undid ${result}`);
      }
    }
    const act = defineEffect("by a class", new Definition());
    const { saver, invoke } = running(async () => ({ log: [await act({ what: "it" })] }));
    await invoke("a");
    await invoke("b");
    await saver.rewind(TO_A);
    expect(done).toEqual(["did it", "did it", "undid it"]);
  });
});

describe("S8.2 S3.5 a rewind knows it by its name", () => {
  test("S8.2 S3.5 a saver and a runner find its undo without being told, and the report says so", async () => {
    const tracker = new Tracker();
    const issue = trackerEffect(tracker);
    const { saver, graph, invoke } = running(async () => ({ log: [(await issue({ title: "x" })).title] }));
    for (const task of ["a", "b", "c"]) await invoke(task);
    expect(await saver.rewinds.compensationReport({ threadId: "t", toTask: "a" })).toMatchObject({ covered: true, coverage: 1 });
    await saver.rewind({ threadId: "t", toTask: "b" });
    await new GraphRunner(graph).rewind(TO_A);
    expect(tracker.closed).toEqual([3, 2]);
  });

  test("S8.2 S3.5 the undos that a rewind or a runner is given come before those of the same name", async () => {
    const [red, blue] = [new Tracker(), new Tracker()];
    const forTenant = (tracker: Tracker) =>
      defineEffect("tenant's issue", {
        run: ({ title }: { title: string }, { key }) => tracker.create(title, key),
        undo: ({ result }) => tracker.close(result.number),
      });
    const redIssue = forTenant(red);
    const blueIssue = forTenant(blue);
    const { saver, graph, invoke } = running(async () => ({ log: [(await redIssue({ title: "x" })).title] }));
    for (const task of ["a", "b", "c"]) await invoke(task);
    await saver.rewind({ threadId: "t", toTask: "b" }, [redIssue]);
    await new GraphRunner(graph, { undos: [redIssue] }).rewind(TO_A);
    expect([red.closed, blue.closed]).toEqual([[3, 2], []]);
    expect(blueIssue.effectName).toBe(redIssue.effectName);
  });

  test("S8.2 S3.5 one that says there is nothing to undo is passed; one that has no undo refuses, until its definition has one", async () => {
    const undone: string[] = [];
    const define = (version: number, undo?: EffectDefinition<void, string>["undo"]) =>
      loadedAs(`file:///app/grows.js?t=${version}`)<void, string>("grows", { run: () => "done", undo });
    const grows = define(1);
    const reads = defineEffect("reads", { run: () => "read", undo: false });
    const { saver, invoke } = running(async () => ({ log: [await grows(), await reads()] }));
    await invoke("a");
    await invoke("b");
    const error = await refusal(saver.rewind(TO_A));
    expect(error).toMatchObject({ code: "EFFECT_UNCOMPENSATED", data: { effects: [{ name: "grows", verdict: "missing" }] } });
    expect(error.message).toMatch(/can't undo 1 effect: "grows" in node "n" \(.*: has no undo\)\. Give effects an undo/);
    define(2, ({ result }) => undone.push(result));
    expect(await saver.rewind(TO_A)).toMatchObject({ effects: { undone: [{ name: "grows" }], needNone: [{ name: "reads" }] } });
    expect(undone).toEqual(["done"]);
  });

  test("S8.2 S3.5 in doubt, its probe is asked: what happened is undone with the probe's result", async () => {
    const tracker = new Tracker();
    let lost = false;
    const issue = trackerEffect(tracker, {
      run: async ({ title }, { key }) => {
        const created = await tracker.create(title, key);
        if (lost) throw new Error("lost");
        return created;
      },
      onError: "unknown",
    });
    const world = running(async () => ({ log: [(await issue({ title: "x" })).title] }));
    const { saver, invoke } = world;
    await invoke("a");
    lost = true;
    await inDoubt(world, "b");
    const events = told(saver);
    // Who only looks changes nothing.
    expect(await saver.rewinds.compensationReport({ threadId: "t", toTask: "a" })).toMatchObject({
      covered: true,
      effects: [{ verdict: "undo" }],
    });
    const dry = await saver.rewind({ ...TO_A, dryRun: true });
    expect((await saver.effects.list("t")).map(({ status }) => status)).toEqual(["done", "in-doubt"]);
    expect(events).toEqual([]);
    const report = await saver.rewind(TO_A);
    expect(report.effects).toEqual(dry.effects);
    expect(report.effects.undone).toMatchObject([{ name: issue.effectName }]);
    expect(tracker.closed).toEqual([2]);
    expect(events).toEqual([`resolved ${issue.effectName} #0`, `undone ${issue.effectName} #0`]);
  });

  test("S8.2 S3.5 in doubt, its probe is asked: what didn't happen is passed, and forgotten with the rest", async () => {
    let lost = false;
    const undone: unknown[] = [];
    const issue = defineEffect("not done", {
      run: () => (lost ? Promise.reject<string>(new Error("lost")) : "done"),
      probe: () => undefined,
      undo: (call) => undone.push(call),
      onError: "unknown",
    });
    const world = running(async () => ({ log: [await issue()] }));
    await world.invoke("a");
    lost = true;
    await inDoubt(world, "b");
    expect(await world.saver.rewind(TO_A)).toMatchObject({ effects: { undone: [], needNone: [{ status: "failed" }] } });
    expect([undone, (await world.saver.effects.list("t")).length]).toEqual([[], 1]);
  });

  test.each([
    ["throws", () => Promise.reject<string>(new Error("no network")), "no network"],
    ["answers null", () => null as never, "null"],
  ])(
    "S8.2 S3.5 in doubt, and its probe %s: the rewind is refused, unless the undo is for such effects",
    async (what, probe, cause) => {
      let lost = false;
      const calls: UndoCall[] = [];
      const act = (whenInDoubt: boolean) =>
        loadedAs(`file:///app/probe.js?in-doubt=${whenInDoubt}`)<void, string>(`probe ${what}`, {
          run: () => (lost ? Promise.reject<string>(new Error("lost")) : "done"),
          probe,
          undo: { run: (call) => calls.push(call), whenInDoubt },
          onError: "unknown",
        });
      const effect = act(false);
      const world = running(async () => ({ log: [await effect()] }));
      await world.invoke("a");
      lost = true;
      await inDoubt(world, "b");
      const error = await refusal(world.saver.rewind(TO_A));
      expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT", cause: { message: expect.stringContaining(cause) as string } });
      expect(error.message).toContain("and its probe failed");
      expect((await world.saver.effects.list("t"))[1]).toMatchObject({ status: "in-doubt" });
      act(true);
      await world.saver.rewind(TO_A);
      expect(calls).toMatchObject([{ inDoubt: true, result: undefined }]);
    },
  );

  test("S8.2 S3.5 if its result couldn't be saved, an undo that reads it fails and says what to do, and one that doesn't is called", async () => {
    const undone: unknown[] = [];
    let keyOnly = false;
    const opens = defineEffect("opens a socket", {
      run: () => ({ port: 80, close: () => undefined }),
      undo: (call) => undone.push(keyOnly ? call.key : call.result.port),
    });
    const { saver, invoke } = running(async ({ log }) =>
      log.length === 0 ? { log: ["a"] } : { log: [String((await opens()).port)] },
    );
    await invoke("a");
    for (const keysOnly of [false, true]) {
      keyOnly = keysOnly;
      expect(await refusal(invoke("b"))).toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
      const { id, key } = (await saver.effects.list("t")).at(-1)!;
      if (!keyOnly) {
        const { code, cause } = await refusal(saver.rewind(TO_A));
        expect([code, (cause as Error).message]).toEqual([
          "UNDO_FAILED",
          `The result of effect "opens a socket" (#0) in node "n" of thread "t" isn't on record, because it couldn't be saved. Let the undo work without \`result\`, or settle the effect: saver.effects.resolve("${id}", { outcome: "done", result }).`,
        ]);
        await saver.effects.resolve(id, { outcome: "done", result: { port: 81 } });
      }
      await saver.rewind(TO_A);
      expect(undone.splice(0)).toEqual([keyOnly ? key : 81]);
    }
  });

  test("S8.2 S3.5 if its result couldn't be saved, an undo for effects in doubt gets none", async () => {
    const calls: unknown[] = [];
    const opens = defineEffect("opens a file", {
      run: () => ({ close: () => undefined }),
      undo: { run: ({ result, inDoubt }) => calls.push([result, inDoubt]), whenInDoubt: true },
    });
    const { saver, invoke } = running(async ({ log }) => (log.length === 0 ? { log: ["a"] } : (await opens(), {})));
    await invoke("a");
    await refusal(invoke("b"));
    await saver.rewind(TO_A);
    expect(calls).toEqual([[undefined, false]]);
  });

  test("S8.2 S3.4 a gate that rolls back finds its undo by its name", async () => {
    const deeds = new Deeds();
    const post = defineEffect("post", { run: () => deeds.do("post"), undo: () => deeds.do("unpost") });
    const saver = open(fresh());
    const graph = line({ n: async () => (await post(), {}) }).compile({ checkpointer: saver });
    const validate = () => ({ confidence: deeds.count("unpost") });
    const runner = new GraphRunner(graph, { nodes: { n: { validate, onFailure: "rollback" } } });
    await runner.invoke(empty, { threadId: "t" });
    expect(deeds.lines()).toEqual(["post", "unpost", "post"]);
  });
});

describe("S8.2 a name belongs to one definition", () => {
  test("S8.2 another definition of the same name is refused, naming both places, and the first one stays", () => {
    const first = () => "first";
    defineEffect("taken", { run: first });
    const error = (() => {
      try {
        return defineEffect("taken", { run: () => "second" });
      } catch (thrown) {
        return thrown as { code: string; message: string; data: { places: string[] } };
      }
    })() as { code: string; message: string; data: { places: string[] } };
    expect(error).toMatchObject({ code: "EFFECT_DEFINED_TWICE", data: { name: "taken" } });
    expect(error.message).toContain('Effect "taken" is defined twice');
    expect(error.data.places).toEqual(Array(2).fill(expect.stringMatching(/define-effect\.test\.ts:\d+:\d+$/)));
    expect(new Set(error.data.places).size).toBe(2);
    expect(definitionNamed("taken")?.run).toBe(first);
  });

  test("S8.2 two effects that one helper wraps, or that are bound, aren't taken for one", () => {
    const retried =
      <I, R>(work: (input: I) => R) =>
      (input: I): R =>
        work(input);
    defineEffect("wrapped", { run: retried((_: void) => "issue"), undo: retried(() => undefined) });
    expect(() => defineEffect("wrapped", { run: retried((_: void) => "ticket"), undo: retried(() => undefined) })).toThrow(
      expect.objectContaining({ code: "EFFECT_DEFINED_TWICE" }),
    );
    const client = { open: (_: void) => "open", close: (_: void) => "close" };
    defineEffect("bound", { run: client.open.bind(client) });
    expect(() => defineEffect("bound", { run: client.close.bind(client) })).toThrow(
      expect.objectContaining({ code: "EFFECT_DEFINED_TWICE" }),
    );
  });

  test("S8.2 the same place may define it again with other code: the newest counts (a hot reload)", () => {
    for (const suffix of ["", "?t=1", "?t=2#x"]) {
      const reloaded = runInThisContext(`(define) => define("reloaded", { run: () => "version ${suffix.length}" })`, {
        filename: `file:///app/effects.js${suffix}`,
      }) as (define: typeof defineEffect) => DefinedEffect<void, string>;
      reloaded(defineEffect);
      expect(definitionNamed("reloaded")?.run(undefined, { key: "" })).toBe(`version ${suffix.length}`);
    }
  });

  test.each([
    ["that gives each its own undo", (undo: Undo) => ({ undo: (call: UndoCall) => undo(call) })],
    ["with an undo as an object", (undo: Undo) => ({ undo: { run: undo } })],
    ["that gives each its own probe", (undo: Undo) => ({ undo, probe: () => undefined })],
    ["of instances of a class", (undo: Undo) => Object.assign(Object.create({}) as object, { undo })],
  ])("S8.2 S3.5 a function %s makes two of one name: a rewind that isn't told which is refused", async (what, more) => {
    const undone: string[] = [];
    const undo = (): unknown => undone.push("undone");
    const forTenant = () => defineEffect(`mail ${what}`, Object.assign(more(undo), { run: () => "sent" }));
    const red = forTenant();
    const { saver, graph, invoke } = running(async () => ({ log: [await red()] }));
    for (const task of ["a", "b", "c"]) await invoke(task);
    await saver.rewind({ threadId: "t", toTask: "b" });
    const blue = forTenant();
    // Whether it was called doesn't matter: a process after a restart can't know either.
    for (const rewind of [() => saver.rewind({ ...TO_A, dryRun: true }), () => new GraphRunner(graph).rewind(TO_A)]) {
      const error = await refusal(rewind());
      expect(error).toMatchObject({ code: "EFFECT_UNCOMPENSATED", data: { effects: [{ verdict: "ambiguous" }] } });
      expect(error.message).toContain("defined more than once");
      expect(error.message).toContain("new GraphRunner(graph, { undos: [effect] })");
    }
    expect(await saver.rewinds.compensationReport(TO_A)).toMatchObject({ covered: false, effects: [{ verdict: "ambiguous" }] });
    expect(undone).toEqual(["undone"]);
    await new GraphRunner(graph, { undos: [red] }).rewind(TO_A);
    expect(undone).toEqual(["undone", "undone"]);
    expect(blue.effectName).toBe(red.effectName);
  });

  test("S8.2 S3.5 a function that gives all its effects one undo and one probe may make any number of one name", async () => {
    const undone: unknown[] = [];
    const undo = ({ result }: UndoCall): unknown => undone.push(result);
    const forTenant = (tenant: string) => defineEffect("mail with one undo", { run: () => `to ${tenant}`, undo });
    const tenants = ["red", "blue"].map(forTenant);
    const { saver, invoke } = running(async () => ({ log: await Promise.all(tenants.map((mail) => mail())) }));
    for (const task of ["a", "b"]) await invoke(task);
    await saver.rewind(TO_A);
    expect(undone).toEqual(["to blue", "to red"]);
  });

  test("S8.2 S3.5 in doubt, of a name with several definitions: none of their probes is asked, and the status says who settles it", async () => {
    const asked: string[] = [];
    const forTenant = (tenant: string) =>
      defineEffect("mail in doubt", {
        run: () => Promise.reject<string>(new Error("lost")),
        onError: "unknown",
        probe: () => (asked.push(tenant), "sent"),
        undo: { run: () => undefined, whenInDoubt: true },
      });
    const [red] = ["red", "blue"].map(forTenant);
    let lost = false;
    const { graph, invoke, resume } = running(async () => (lost ? { log: [await red!()] } : {}));
    await invoke("a");
    lost = true;
    await refusal(invoke("b"));
    const runner = new GraphRunner(graph);
    expect(String(await runner.status("t"))).toMatch(/in doubt: "mail in doubt" of n\. .*resolve/);
    expect(await refusal(runner.rewind(TO_A))).toMatchObject({ code: "EFFECT_UNCOMPENSATED" });
    expect(asked).toEqual([]);
    // A resume asks the probe of the effect that the node calls.
    expect(await resume()).toMatchObject({ log: ["sent"] });
    expect(asked).toEqual(["red"]);
  });

  longTest(
    "S8.2 S3.5 property: in all orders of definitions and calls, a rewind calls the undo of the definition that did the effect, or refuses",
    async () => {
      type Step = { does: "reload" } | { does: "make"; tenant: string; old: number } | { does: "effect"; by: number };
      const tenant = fc.constantFrom("main", "red", "blue");
      const steps = fc.array(
        fc.oneof<fc.Arbitrary<Step>[]>(
          fc.constant({ does: "reload" }),
          fc.record({ does: fc.constant("make" as const), tenant, old: fc.nat(2) }),
          fc.record({ does: fc.constant("effect" as const), by: fc.nat(5) }),
        ),
        { minLength: 2, maxLength: 10 },
      );
      const refused = { yes: 0, no: 0 };
      await fc.assert(
        fc.asyncProperty(steps, fc.boolean(), async (given, shared) => {
          const name = `made ${++made}`;
          const undone: string[] = [];
          const doers: string[] = [];
          const sharedUndo = ({ result }: UndoCall<void, string>): unknown => undone.push(result);
          const modules: { define: Define; made: number }[] = [];
          const effects: DefinedEffect<void, string>[] = [];
          const make = (module: (typeof modules)[number], tenant: string): void => {
            const undo = shared ? sharedUndo : () => undone.push(tenant);
            module.made++;
            effects.push(module.define<void, string>(name, { run: () => tenant, undo }));
          };
          // As it is loaded, a module makes the effect of its main tenant.
          const reload = (): void => {
            modules.push({ define: loadedAs(`file:///app/${name}.js?t=${modules.length}`), made: 0 });
            make(modules.at(-1)!, "main");
          };
          reload();
          let now: DefinedEffect<void, string> | undefined;
          const { saver, invoke } = running(async () => ({ log: now === undefined ? [] : [await now()] }));
          await invoke("a");
          for (const [index, step] of given.entries()) {
            if (step.does === "reload") reload();
            else if (step.does === "make") make(modules.at(-1 - step.old) ?? modules[0]!, step.tenant);
            else {
              now = effects[step.by % effects.length];
              doers.push((await invoke(`task ${index}`)).log.at(-1)!);
            }
          }
          const isAmbiguous = !shared && doers.length > 0 && modules.some((module) => module.made > 1);
          refused[isAmbiguous ? "yes" : "no"]++;
          if (isAmbiguous) expect(await refusal(saver.rewind(TO_A))).toMatchObject({ code: "EFFECT_UNCOMPENSATED" });
          else await saver.rewind(TO_A);
          expect(undone).toEqual(isAmbiguous ? [] : doers.toReversed());
          closeAll();
        }),
        {
          numRuns: runs(15, 150),
          examples: [
            [
              [
                { does: "make", tenant: "red", old: 0 },
                { does: "effect", by: 0 },
              ],
              false,
            ],
          ],
        },
      );
      expect(refused.yes).toBeGreaterThan(0);
    },
  );

  test("S8.2 so may a second copy of the same source text (a module in two bundles), but no copy that differs", () => {
    const load = (file: string, text: string): void =>
      (
        runInThisContext(`(define) => define("bundled", { run: () => "${text}", undo: { run: () => 1 } })`, {
          filename: file,
        }) as (define: typeof defineEffect) => void
      )(defineEffect);
    load("/app/route-a.js", "same");
    const before = definitionNamed("bundled");
    load("/app/route-b.js", "same");
    expect(definitionNamed("bundled")).not.toBe(before);
    expect(() => load("/app/route-c.js", "other")).toThrow(expect.objectContaining({ code: "EFFECT_DEFINED_TWICE" }));
  });

  test("S8.2 a second copy of the package (ESM beside CommonJS) shares the names, and takes the other's effects", async () => {
    const undone: unknown[] = [];
    let copy = undefined as unknown as typeof import("langgraph-checkpoint-turns");
    jest.isolateModules(() => (copy = jest.requireActual("../../src/index")));
    expect(copy.defineEffect).not.toBe(defineEffect);
    const shared = copy.defineEffect("shared", { run: () => "done", undo: ({ result }) => undone.push(result) });
    expect(() => defineEffect("shared", { run: () => 1 })).toThrow(expect.objectContaining({ code: "EFFECT_DEFINED_TWICE" }));
    const { saver, invoke } = running(async () => ({ log: [await shared()] }));
    for (const task of ["a", "b", "c"]) await invoke(task);
    await saver.rewind({ threadId: "t", toTask: "b" });
    await saver.rewind(TO_A, [shared]);
    expect(undone).toEqual(["done", "done"]);
  });

  test("S8.2 what is no definition is refused by name", () => {
    for (const [name, definition, found] of [
      ["", { run: () => 1 }, /name of an effect/],
      [7, { run: () => 1 }, /name of an effect/],
      ["x", undefined, /an object/],
      ["x", {}, /"run"/],
      ["x", { run: 1 }, /"run"/],
      ["x", { run: () => 1, probe: true }, /"probe"/],
      ["x", { run: () => 1, undo: true }, /"undo"/],
      ["x", { run: () => 1, undo: { probe: () => true } }, /"undo\.run" is missing/],
      ["x", { run: () => 1, undo: { run: () => 1, idempotend: true } }, /"undo\.idempotend"\. Did you mean "undo\.idempotent"\?/],
      ["x", { run: () => 1, onError: "maybe" }, /"onError"/],
      ["x", { run: () => 1, undos: () => 1 }, /"undos"/],
    ] as const) {
      expect(() => defineEffect(name as never, definition as never)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringMatching(found) as string }),
      );
    }
    expect(definitionNamed("x")).toBeUndefined();
  });
});

/** Compiled, never called: strict TypeScript infers all of it from `run`. */
export function types(tracker: Tracker): unknown {
  const issue = defineEffect("types", {
    run: (input: { title: string }, { key }) => tracker.create(input.title, key),
    probe: ({ key, input }) => tracker.find(`${key} ${input.title.trim()}`),
    undo: ({ result, input, key, effect }) => [result.number.toFixed(), input.title, key.length, effect.startedAt.getTime()],
  });
  const result: Promise<Issue> = issue({ title: "x" }, { id: "1" });
  // @ts-expect-error -- another input
  void issue({ titel: "x" });
  // @ts-expect-error -- no input
  void issue();
  // @ts-expect-error -- no such option
  void issue({ title: "x" }, { input: 1 });
  const none: Promise<number> = defineEffect("types", { run: () => 5 })();
  const keyed: Promise<string> = defineEffect("types", { run: (_, { key }) => key, undo: false })();
  // @ts-expect-error -- a probe that tells something else
  defineEffect("types", { run: () => 5, probe: () => "five" });
  // @ts-expect-error -- an undo that takes the result for something else
  defineEffect("types", { run: () => 5, undo: ({ result }) => result.length });
  // @ts-expect-error -- an option that is none
  defineEffect("types", { run: () => 5, undoo: () => 5 });
  const detailed = defineEffect("types", {
    run: async (input: { a: 1 }) => ({ b: 2, input }),
    undo: { run: ({ result }) => result.b.toFixed(), probe: ({ result, input }) => result.b === input.a, idempotent: true },
  });
  defineEffect("types", {
    run: async (input: { a: 1 }) => ({ b: 2, input }),
    undo: {
      run: ({ result }) => result?.b.toFixed(),
      // @ts-expect-error -- in doubt nobody knows the result
      probe: ({ result }) => result.b === 2,
      whenInDoubt: true,
    },
  });
  const nothing: Promise<void> = defineEffect("types", {
    run: () => {},
    probe: () => (tracker.closed.length > 0 ? true : undefined),
  })();
  const undos: readonly DefinedEffect[] = [issue, detailed];
  // @ts-expect-error -- a function is no defined effect
  const wrong: readonly DefinedEffect[] = [(_: { title: string }) => Promise.resolve(1)];
  return [result, nothing, none, keyed, undos, wrong];
}
