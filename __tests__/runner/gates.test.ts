import { randomBytes } from "node:crypto";
import { Annotation, Command, entrypoint, Send, START, StateGraph, task } from "@langchain/langgraph";
import Database from "better-sqlite3";
import fc from "fast-check";
import { type TurnSaver, TurnsError } from "langgraph-checkpoint-turns";
import {
  type Gate,
  type GateOptions,
  type GatesOptions,
  resolveGates,
  validated,
  type ValidationContext,
  type Validity,
  internalsOf,
} from "../../src/testing-internal";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** What stops a node reaches the caller, and never the console. */
beforeEach(() => void jest.spyOn(console, "error").mockImplementation(() => undefined));
afterEach(() => {
  expect(console.error).not.toHaveBeenCalled();
  jest.restoreAllMocks();
});

function setup(options: object = {}) {
  const warnings: string[] = [];
  const logger = { debug() {}, info() {}, warn: (_: object, message: string) => void warnings.push(message), error() {} };
  const saver = openSaver(tempFile(), { logger, ...options });
  const ran: string[] = [];
  /** A node that notes that it ran. */
  const node = (name: string) => (): { log: string[] } => {
    ran.push(name);
    return { log: [name] };
  };
  return { saver, warnings, ran, node };
}

/** A gate that gives what `sure` holds for the node, 1 if nothing. */
function gate(sure: Record<string, Validity>, more: Partial<GateOptions> = {}): GateOptions {
  return { validate: (_, { nodeName }) => sure[nodeName] ?? 1, onFailure: "throw", ...more };
}

const config = (threadId = "t") => ({ configurable: { thread_id: threadId } });
const told = async (saver: TurnSaver, threadId = "t") =>
  (await saver.turns.list(threadId))
    .filter((turn) => turn.turnType === "Action")
    .map((turn) => `${turn.nodeName}#${turn.attempt} ${turn.status} ${turn.durable} ${turn.validation?.verdict ?? "-"}`);
const failed = (nodeName: string, more: object = {}): unknown =>
  expect.objectContaining({ code: "VALIDATION_FAILED", data: expect.objectContaining({ nodeName, ...more }) as unknown });

describe("S3.4 gates: verdicts", () => {
  const context = { threadId: "t", taskId: "T", nodeName: "a", nodeNs: "a:1", nodeTaskId: "1", step: 1, input: {} };
  const judge = (gateOptions: Omit<GateOptions, "validate">, answer: unknown, attempt = 1) => {
    const resolved = resolveGates({ nodes: { a: { ...gateOptions, validate: () => answer as Validity } } })["a"] as Gate;
    return validated(resolved, {}, { ...context, attempt });
  };

  test("S3.4 property: at or above warnBelow it passed, from minConfidence it is a warning, below it failed", async () => {
    const unit = fc.double({ min: 0, max: 1, noNaN: true });
    await fc.assert(
      fc.asyncProperty(unit, unit, unit, async (one, other, confidence) => {
        const [minConfidence, warnBelow] = [Math.min(one, other), Math.max(one, other)];
        const { verdict } = await judge({ minConfidence, warnBelow }, confidence);
        expect(verdict).toBe(confidence >= warnBelow ? "passed" : confidence >= minConfidence ? "warning" : "failed");
      }),
    );
  });

  test("S3.4 the defaults are 0.7 and 0.85; a result is recorded; a minConfidence above 0.85 leaves no room for warnings", async () => {
    const answers = [0.85, 0.849, 0.7, 0.699];
    const verdicts = await Promise.all(answers.map((answer) => judge({}, answer)));
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(["passed", "warning", "warning", "failed"]);
    expect(verdicts[0]).toEqual({
      confidence: 0.85,
      verdict: "passed",
      minConfidence: 0.7,
      warnBelow: 0.85,
      onFailure: "record",
    });
    expect(await judge({ minConfidence: 0.9 }, 0.89)).toMatchObject({ verdict: "failed", warnBelow: 0.9 });
    expect(await judge({ minConfidence: 0.9 }, 0.9)).toMatchObject({ verdict: "passed" });
  });

  test("S3.4 a recommendation: the previous checkpoint first, the task when it failed before, everything when it is ruled out", async () => {
    expect(await judge({}, 0.1)).toMatchObject({ recommendation: "previous-checkpoint" });
    expect(await judge({}, 0.1, 2)).toMatchObject({ recommendation: "one-task" });
    expect(await judge({}, 0, 2)).toMatchObject({ recommendation: "everything" });
    expect(await judge({}, { confidence: 0.1, recommendation: "everything" })).toMatchObject({ recommendation: "everything" });
    expect(await judge({}, { confidence: 0.1, recommendation: "nonsense" })).toMatchObject({
      recommendation: "previous-checkpoint",
    });
    expect(await judge({}, { confidence: 0.8, reason: "thin" })).toEqual(
      expect.objectContaining({ verdict: "warning", reason: "thin", confidence: 0.8 }),
    );
    expect(await judge({}, 1)).not.toHaveProperty("recommendation");
  });

  test("S3.4 a validator that throws, rejects or gives no confidence vouches for nothing, and the reason says so", async () => {
    const answers = [NaN, -0.1, 1.1, Infinity, "1", null, undefined, {}, { confidence: NaN }, { confidence: "high" }];
    for (const answer of [...answers, Promise.resolve(2)]) {
      expect(await judge({}, answer)).toMatchObject({
        confidence: 0,
        verdict: "failed",
        reason: expect.stringContaining("no confidence from 0 to 1") as unknown,
        recommendation: "previous-checkpoint",
      });
    }
    const rejected = Promise.reject(new Error("no judge"));
    expect(await judge({}, rejected)).toMatchObject({ confidence: 0, reason: "the validator threw: no judge" });
    expect((await judge({}, { confidence: 1, reason: "x".repeat(9_999) })).reason).toHaveLength(2_000);
  });
});

describe("S3.4 gates: settings", () => {
  const validate = () => 1;
  test.each([
    [{ nodes: { a: { validate, minConfidence: 1.1 } } }, "nodes.a.minConfidence"],
    [{ nodes: { a: { validate, minConfidence: NaN } } }, "nodes.a.minConfidence"],
    [{ nodes: { a: { validate, warnBelow: -1 } } }, "nodes.a.warnBelow"],
    [{ nodes: { a: { validate, warnBelow: 0.5 } } }, "nodes.a.warnBelow"],
    [{ nodes: { a: { validate, minConfidence: 0.9 } }, defaults: { warnBelow: 0.8 } }, "nodes.a.minConfidence"],
    [{ defaults: { minConfidence: 0.9, warnBelow: 0.8 } }, "defaults.warnBelow"],
    [{ nodes: { a: { validate, onFailure: "retry" } } }, "nodes.a.onFailure"],
    [{ nodes: { a: { validate, maxRollbacks: 0.5 } } }, "nodes.a.maxRollbacks"],
    [{ nodes: { a: { minConfidence: 0.5 } } }, "nodes.a.validate"],
    [{ nodes: { a: { validate, min: 0.5 } } }, "nodes.a.min"],
    [{ gates: {} }, "gates"],
  ])("S3.4 %j is refused by name", (options, option) => {
    const { saver } = setup();
    const graph = new StateGraph(State)
      .addNode("a", () => ({}))
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    expect(() => saver.attach(graph, { gates: options as GatesOptions })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", data: { option } }),
    );
    expect(() => internalsOf(saver).documentOf(graph)).toThrow(expect.objectContaining({ code: "INVALID_GRAPH" }));
    saver.close();
  });

  test("S3.4 a node's settings come before the run's; names of nodes that the graph does not show are warned of", () => {
    expect(
      resolveGates({
        nodes: { a: { validate, minConfidence: 0.2 }, b: { validate, onFailure: "throw", maxRollbacks: 0 } },
        defaults: { warnBelow: 0.9, onFailure: "rollback" },
      }),
    ).toEqual({
      a: { validate, minConfidence: 0.2, warnBelow: 0.9, onFailure: "rollback", maxRollbacks: 3 },
      b: { validate, minConfidence: 0.7, warnBelow: 0.9, onFailure: "throw", maxRollbacks: 0 },
    });
    const { saver, warnings } = setup();
    const graph = new StateGraph(State)
      .addNode("a", () => ({}))
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    saver.attach(graph, { gates: { nodes: { a: { validate } } }, versions: { a: "1" } });
    expect(warnings).toEqual([]);
    saver.attach(graph, { gates: { nodes: { aa: { validate } } } });
    expect(warnings).toEqual([expect.stringContaining("nodes that the graph does not show")]);
    saver.close();
  });
});

describe("S3.4 gates: in a run", () => {
  test("S3.4 recorded: the run continues, results come out in history, warnings and failures are logged and told", async () => {
    const { saver, warnings, node } = setup();
    const events: object[] = [];
    saver.events.on("validation", (event) => events.push(event));
    const graph = new StateGraph(State)
      .addNode("a", node("a"))
      .addNode("b", node("b"))
      .addNode("c", node("c"))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .compile({ checkpointer: saver });
    const seen: [unknown, ValidationContext][] = [];
    const validate = (output: unknown, context: ValidationContext): Promise<Validity> => {
      seen.push([output, context]);
      return Promise.resolve({ a: 1, b: 0.75, c: { confidence: 0.2, reason: "thin" } }[context.nodeName] ?? 0);
    };
    saver.attach(graph, { gates: { nodes: { a: { validate }, b: { validate }, c: { validate } } } });
    expect(await graph.invoke({ log: ["in"] }, config())).toEqual({ log: ["in", "a", "b", "c"] });
    expect(await told(saver)).toEqual(["a#1 ok true passed", "b#1 ok true warning", "c#1 ok true failed"]);
    const turns = (await saver.turns.list("t")).filter((turn) => turn.turnType === "Action");
    expect(turns[2]?.validation).toEqual({
      confidence: 0.2,
      verdict: "failed",
      reason: "thin",
      recommendation: "previous-checkpoint",
      minConfidence: 0.7,
      warnBelow: 0.85,
      onFailure: "record",
    });
    expect(warnings).toEqual([
      'the output of node "b" passed its validation with a warning',
      'the output of node "c" failed its validation',
    ]);
    const { nodeNs, nodeTaskId, taskId, id: turnId } = turns[2]!;
    expect(events).toHaveLength(3);
    expect(events[2]).toMatchObject({ threadId: "t", taskId, nodeName: "c", nodeNs, nodeTaskId, turnId, verdict: "failed" });
    expect(seen[1]).toEqual([
      { log: ["b"] },
      {
        threadId: "t",
        taskId,
        nodeName: "b",
        nodeNs: turns[1]?.nodeNs,
        nodeTaskId: turns[1]?.nodeTaskId,
        step: 2,
        attempt: 1,
        input: { log: ["in", "a"] },
      },
    ]);
    saver.close();
  });

  test("S3.4 the Action exists before its gate is asked, and the next superstep waits for the answer", async () => {
    const { saver, ran, node } = setup();
    const graph = new StateGraph(State)
      .addNode("a", node("a"))
      .addNode("b", node("b"))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer: saver });
    const found: unknown[] = [];
    const validate = async (): Promise<number> => {
      found.push(await told(saver));
      await new Promise((resolve) => setTimeout(resolve, 30));
      found.push([...ran], await saver.turns.isRunning("t"));
      return 1;
    };
    saver.attach(graph, { gates: { nodes: { a: { validate } } } });
    await graph.invoke({ log: [] }, config());
    expect(found).toEqual([["a#1 ok false -"], ["a"], true]);
    saver.close();
  });

  test("S3.4 throw: the node has failed, what was parallel and done is kept, no superstep builds on it, and resume runs it again", async () => {
    const { saver, ran, node } = setup();
    const graph = new StateGraph(State)
      .addNode("a", node("a"))
      .addNode("b", node("b"))
      .addNode("z", node("z"))
      .addEdge(START, "a")
      .addEdge(START, "b")
      .addEdge(["a", "b"], "z")
      .compile({ checkpointer: saver });
    const sure: Record<string, Validity> = { b: 0.1, z: 0.2 };
    const nodes = Object.fromEntries(["a", "b", "z"].map((name) => [name, gate(sure)]));
    saver.attach(graph, { gates: { nodes } });
    const [error] = await Promise.all([graph.invoke({ log: ["in"] }, config()).catch((thrown: unknown) => thrown)]);
    const action = (await saver.turns.list("t")).find((turn) => turn.turnType === "Action" && turn.nodeName === "b");
    expect(error).toEqual(
      failed("b", { threadId: "t", turnId: action?.id, confidence: 0.1, onFailure: "throw", maxRollbacks: 3 }),
    );
    expect(TurnsError.is(error, "VALIDATION_FAILED")).toBe(true);
    expect(await told(saver)).toEqual(["a#1 ok true passed", "b#1 error false failed"]);
    expect(await saver.turns.state(action!)).toEqual({ log: ["b"] });
    expect((await graph.getState(config())).next).toContain("b");
    delete sure["b"];
    await expect(graph.invoke(null, config())).rejects.toEqual(failed("z"));
    delete sure["z"];
    expect(await graph.invoke(null, config())).toEqual({ log: ["in", "a", "b", "z"] });
    expect(ran.toSorted()).toEqual(["a", "b", "b", "z", "z"]);
    expect((await told(saver)).slice(2)).toEqual(["b#2 ok true passed", "z#1 error false failed", "z#2 ok true passed"]);
    expect(await saver.turns.inFlight("t")).toEqual([]);
    saver.close();
  });

  test("S3.4 a node of a subgraph, named by its path or its name; its finished sibling does not run again", async () => {
    const { saver, ran, node } = setup();
    const inner = new StateGraph(State)
      .addNode("s1", node("s1"))
      .addNode("s2", node("s2"))
      .addEdge(START, "s1")
      .addEdge("s1", "s2")
      .compile();
    const graph = new StateGraph(State).addNode("sub", inner).addEdge(START, "sub").compile({ checkpointer: saver });
    const sure: Record<string, Validity> = { s2: 0.1 };
    saver.attach(graph, { gates: { nodes: { "sub|s2": gate(sure), s2: { validate: () => 1 } } } });
    await expect(graph.invoke({ log: [] }, config())).rejects.toEqual(failed("s2"));
    expect(await told(saver)).toEqual(["s1#1 ok true -", "s2#1 error false failed", "sub#1 error false -"]);
    delete sure["s2"];
    expect(await graph.invoke(null, config())).toEqual({ log: ["s1", "s2"] });
    expect(ran).toEqual(["s1", "s2", "s2"]);
    saver.close();
  });

  test("S3.4 a retry policy runs the node again by itself, and the writes of the failed attempt are gone", async () => {
    const { saver, node } = setup();
    const graph = new StateGraph(State)
      .addNode("a", node("a"), { retryPolicy: { maxAttempts: 3, initialInterval: 1, jitter: false } })
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    const answers = [0.1, 0.2, 0.9];
    const attempts: number[] = [];
    const validate = (_: unknown, { attempt }: ValidationContext): number => {
      attempts.push(attempt);
      return answers.shift() ?? 1;
    };
    saver.attach(graph, { gates: { nodes: { a: { validate, onFailure: "rollback" } } } });
    expect(await graph.invoke({ log: [] }, config())).toEqual({ log: ["a"] });
    expect(attempts).toEqual([1, 2, 3]);
    expect(await told(saver)).toEqual(["a#1 error false failed", "a#2 error false failed", "a#3 ok true passed"]);
    const actions = (await saver.turns.list("t")).filter((turn) => turn.turnType === "Action");
    expect(actions.map((turn) => turn.validation?.recommendation)).toEqual(["previous-checkpoint", "one-task", undefined]);
    saver.close();
  });

  test("S3.4 Sends are judged one by one, an outcome that is a Command too; a stream ends with the error", async () => {
    const { saver } = setup();
    const graph = new StateGraph(State)
      .addNode("w", ({ log }: { log: string[] }) => new Command({ update: { log } }))
      .addConditionalEdges(START, () => ["good", "bad"].map((text) => new Send("w", { log: [text] })), ["w"])
      .compile({ checkpointer: saver });
    let bad = 0.1;
    const validate = (output: unknown, { input }: ValidationContext): number => {
      expect(output).toBeInstanceOf(Command);
      return (input as { log: string[] }).log[0] === "bad" ? bad : 1;
    };
    saver.attach(graph, { gates: { nodes: { w: { validate, onFailure: "throw" } } } });
    const chunks: unknown[] = [];
    const read = async (input: unknown): Promise<void> => {
      for await (const chunk of await graph.stream(input as null, { ...config(), streamMode: "updates" })) chunks.push(chunk);
    };
    await expect(read({ log: [] })).rejects.toEqual(failed("w"));
    bad = 1;
    await read(null);
    expect((await graph.getState(config())).values).toEqual({ log: ["good", "bad"] });
    expect(JSON.stringify(chunks)).toContain("bad");
    expect((await told(saver)).toSorted()).toEqual(["w#1 error false failed", "w#1 ok true passed", "w#2 ok true passed"]);
    saver.close();
  });

  test("S3.4 functional: a task that fails its gate throws where it is called, the entrypoint has a gate too; finished tasks are kept", async () => {
    const { saver, ran } = setup();
    const double = task("double", (x: number) => {
      ran.push(`double ${x}`);
      return Promise.resolve(x * 2);
    });
    const graph = entrypoint({ name: "ep", checkpointer: saver }, async (x: number) => {
      const one = await double(x);
      const two = await double(one).catch((error: unknown) => {
        ran.push((error as TurnsError).code);
        throw error;
      });
      return { two };
    });
    const sure = { double: 0.1, ep: 0.2 };
    const outputs: unknown[] = [];
    const validate = (output: unknown, { nodeName, input }: ValidationContext): number => {
      outputs.push([nodeName, output, input]);
      const second = JSON.stringify(output) === '{"output":8}';
      return nodeName === "ep" ? sure.ep : second ? sure.double : 1;
    };
    const strict = { validate, onFailure: "throw" } as const;
    saver.attach(graph, { gates: { nodes: { double: strict, ep: strict } } });
    await expect(graph.invoke(2, config())).rejects.toEqual(failed("double"));
    expect(ran).toEqual(["double 2", "double 4", "VALIDATION_FAILED"]);
    sure.double = 1;
    await expect(graph.invoke(null, config())).rejects.toEqual(failed("ep"));
    sure.ep = 1;
    expect(await graph.invoke(null, config())).toEqual({ two: 8 });
    expect(ran).toEqual(["double 2", "double 4", "VALIDATION_FAILED", "double 4"]);
    expect(outputs[0]).toEqual(["double", { output: 4 }, { input: [2] }]);
    saver.close();
  });

  test("S3.4 streamEvents and a subgraph that is attached as well: each result is judged once", async () => {
    const { saver } = setup();
    let judged = 0;
    const validate = (): number => ++judged && 1;
    const inner = saver.attach(
      new StateGraph(State)
        .addNode("s", () => ({ log: ["s"] }))
        .addEdge(START, "s")
        .compile({ checkpointer: saver }),
      { gates: { nodes: { s: { validate: () => 0, onFailure: "throw" } } } },
    );
    const graph = new StateGraph(State).addNode("sub", inner).addEdge(START, "sub").compile({ checkpointer: saver });
    saver.attach(graph, { gates: { nodes: { s: { validate } } } });
    for await (const _ of graph.streamEvents({ log: [] }, { ...config(), version: "v2" }));
    expect(judged).toBe(1);
    await expect(inner.invoke({ log: [] }, config("inner"))).rejects.toEqual(failed("s"));
    saver.close();
  });
});

describe("S3.4 gates: when other things fail", () => {
  const oneNode = (saver: TurnSaver, sure: Record<string, Validity>, more: Partial<GateOptions> = {}) => {
    const graph = new StateGraph(State)
      .addNode("a", ({ log }) => {
        if (log.includes("broken")) throw new Error("a is broken");
        return { log: ["a"] };
      })
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    return saver.attach(graph, { gates: { nodes: { a: gate(sure, more) } } });
  };

  test("S3.4 a node that fails by itself is not judged", async () => {
    const { saver } = setup();
    let asked = false;
    const graph = oneNode(saver, {}, { validate: () => ((asked = true), 1) });
    await expect(graph.invoke({ log: ["broken"] }, config())).rejects.toThrow("a is broken");
    expect(asked).toBe(false);
    expect(await told(saver)).toEqual(["a#1 error false -"]);
    saver.close();
  });

  test("S3.4 a gate holds where no turns are kept, and where its result cannot be saved", async () => {
    const { saver } = setup({ turns: "off" });
    await expect(oneNode(saver, { a: 0.1 }).invoke({ log: [] }, config())).rejects.toEqual(failed("a", { turnId: undefined }));
    expect(await saver.turns.list("t")).toEqual([]);
    saver.close();
    const path = tempFile();
    const errors: string[] = [];
    const logger = { debug() {}, info() {}, warn() {}, error: (_: object, message: string) => void errors.push(message) };
    const other = openSaver(path, { logger });
    const db = new Database(path);
    db.exec(
      "CREATE TRIGGER no BEFORE UPDATE OF validation ON langgraph_checkpoints WHEN NEW.validation IS NOT NULL BEGIN SELECT raise(ABORT, 'no'); END",
    );
    db.close();
    await expect(oneNode(other, { a: 0.1 }).invoke({ log: [] }, config())).rejects.toEqual(failed("a"));
    expect(errors).toEqual(["what a gate found could not be saved"]);
    expect(await told(other)).toEqual(["a#1 error false -"]);
    other.close();
  });

  test.each([
    ["an encrypted database", { encryption: { key: randomBytes(32) } }],
    ["turns: metadata", { turns: "metadata" }],
    ["redact", { redact: () => ({}) }],
  ])("S4.6 the validator's reason, words about content, is not stored with %s", async (_, options) => {
    const { saver } = setup(options);
    const reasons: unknown[] = [];
    saver.events.on("validation", ({ reason }) => reasons.push(reason));
    await oneNode(saver, { a: { confidence: 0.75, reason: "secret" } }).invoke({ log: [] }, config());
    const action = (await saver.turns.list("t")).find((turn) => turn.turnType === "Action");
    expect(action?.validation).toEqual({
      confidence: 0.75,
      verdict: "warning",
      minConfidence: 0.7,
      warnBelow: 0.85,
      onFailure: "throw",
    });
    expect(reasons).toEqual(["secret"]);
    saver.close();
  });

  test("S3.4 what a gate found survives a new process and a copy of the thread, and is under the row's checksum", async () => {
    const path = tempFile();
    const first = openSaver(path);
    await oneNode(first, { a: 0.9 }).invoke({ log: [] }, config());
    await first.copyThread("t", "copy");
    first.close();
    const second = openSaver(path);
    expect(await told(second)).toEqual(["a#1 ok true passed"]);
    expect(await told(second, "copy")).toEqual(["a#1 ok true passed"]);
    const db = new Database(path);
    db.exec("UPDATE langgraph_checkpoints SET validation = replace(validation, '0.9', '0.2')");
    db.close();
    await expect(second.turns.list("t")).rejects.toThrow(expect.objectContaining({ code: "CHECKPOINT_CORRUPTED" }));
    second.close();
  });
});
