import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { context, ProxyTracerProvider, trace, SpanStatusCode } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import Database from "better-sqlite3";
import { beginTracing, spanned, Tracing } from "../../src/testing-internal";
import { answer, at, input, KEY, SECRET, secretGraph, SMALL } from "../support/enc-graph";
import { configOf, idOf, openOn, put, putWrites } from "../support/model-calls";
import { listener } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { testOfFiles } from "../support/test-of-files";

const exporter = new InMemorySpanExporter();
const spans = (name?: string): ReadableSpan[] =>
  exporter.getFinishedSpans().filter((span) => name === undefined || span.name === name);

beforeAll(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
  await beginTracing().ready;
});
beforeEach(() => exporter.reset());
afterAll(() => {
  trace.disable();
  context.disable();
});

describe("spans of OpenTelemetry", () => {
  it("a saver tells of put, putWrites, getTuple and rewind, with ids and steps", async () => {
    const saver = openOn(":memory:");
    await put(saver, { id: 1, values: { x: SECRET }, versions: { x: 1 }, task: "a" });
    await putWrites(saver, { id: 1, task: "a" }, "node task", [["x", SECRET]]);
    await put(saver, { id: 2, parent: 1, values: { x: SECRET }, versions: { x: 2 }, source: "input", task: "b" });
    await saver.getTuple(configOf({ id: 1 }));
    await saver.rewind({ threadId: "thread", toTask: "a" });
    saver.close();
    const database = { "db.system.name": ON_POSTGRES ? "postgresql" : "sqlite", "langgraph.thread_id": "thread" };
    expect(spans().map(({ name, attributes }) => [name, attributes])).toEqual([
      [
        "put langgraph_snapshots",
        expect.objectContaining({
          ...database,
          "db.operation.name": "put",
          "langgraph.checkpoint_id": idOf(1),
          "langgraph.step": 1,
        }),
      ],
      [
        "putWrites langgraph_writes",
        expect.objectContaining({ ...database, "langgraph.checkpoint_id": idOf(1), "langgraph.node_task_id": "node task" }),
      ],
      ["put langgraph_snapshots", expect.objectContaining({ "langgraph.checkpoint_id": idOf(2), "langgraph.source": "input" })],
      ["getTuple langgraph_snapshots", expect.objectContaining({ ...database, "langgraph.checkpoint_id": idOf(1) })],
      ["rewind langgraph_checkpoints", expect.objectContaining({ ...database, "langgraph.task_id": "a" })],
    ]);
    expect(JSON.stringify(spans().map(({ attributes, events }) => [attributes, events]))).not.toContain(SECRET);
  });

  it("a span's parent is the active one, and it is the active one within", async () => {
    const saver = openOn(":memory:");
    await trace.getTracer("test").startActiveSpan("outer", async (outer) => {
      await put(saver, { id: 1, values: {}, versions: {} });
      outer.end();
    });
    const [inner, outer] = [spans("put langgraph_snapshots")[0]!, spans("outer")[0]!];
    expect(inner.parentSpanContext?.spanId).toBe(outer.spanContext().spanId);
    const active = spanned(
      "work",
      () => ({}),
      () => trace.getActiveSpan()?.spanContext().spanId,
    );
    expect(active).toBe(spans("work")[0]!.spanContext().spanId);
    saver.close();
  });

  testOfFiles("put and putWrites commit before their first await, with a span as without", async () => {
    const path = tempFile();
    const saver = openOn(path);
    const db = new Database(path, { readonly: true });
    const count = (table: string): unknown => db.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
    const saved = put(saver, { id: 1, values: { x: 1 }, versions: { x: 1 } });
    expect(count("langgraph_snapshots")).toBe(1);
    const written = putWrites(saver, { id: 1 }, "node task", [["x", 1]]);
    expect(count("langgraph_writes")).toBe(1);
    await Promise.all([saved, written]);
    expect(spans()).toHaveLength(2);
    db.close();
    saver.close();
  });

  it("what fails is on record with its code, thrown as it is, and nothing of a payload is told", async () => {
    const saver = openOn(":memory:");
    const config = configOf({ id: undefined }) as never;
    const checkpoint = {
      v: 4,
      id: idOf(1),
      ts: "",
      channel_values: { x: () => SECRET },
      channel_versions: { x: 1 },
      versions_seen: {},
    };
    const metadata = { source: "input", step: -1, parents: {} } as never;
    await expect(saver.put(config, checkpoint as never, metadata, { x: 1 })).rejects.toMatchObject({
      code: "UNSERIALIZABLE_VALUE",
    });
    const [span] = spans();
    expect(span).toMatchObject({ status: { code: SpanStatusCode.ERROR }, attributes: { "error.type": "UNSERIALIZABLE_VALUE" } });
    expect(span!.events).toMatchObject([{ name: "exception", attributes: { "exception.type": "UnserializableValueError" } }]);
    const thrown = new SyntaxError(`Unexpected token in ${SECRET}`);
    expect(() =>
      spanned(
        "fails",
        () => ({}),
        () => {
          throw thrown;
        },
      ),
    ).toThrow(thrown);
    await expect(
      spanned(
        "rejects",
        () => ({}),
        () => Promise.reject(thrown),
      ),
    ).rejects.toBe(thrown);
    expect(spans().map(({ status }) => status.code)).toEqual([2, 2, 2]);
    expect(JSON.stringify(spans().map(({ status, events, attributes }) => [status, events, attributes]))).not.toContain(SECRET);
    saver.close();
  });

  it("a call that makes no sense is refused by name as before", async () => {
    const saver = openOn(":memory:");
    for (const config of [undefined, null, 7, {}, { configurable: null }, { configurable: { thread_id: 7 } }]) {
      await expect(saver.put(config as never, null as never, undefined as never, {})).rejects.toMatchObject({ name: /Invalid/ });
      await expect(saver.putWrites(config as never, [], undefined as never)).rejects.toMatchObject({ name: /Invalid/ });
      await expect(saver.rewind(config as never)).rejects.toMatchObject({ name: /Invalid/ });
    }
    expect(spans()).toHaveLength(18);
    saver.close();
  });

  it("hands sync values and promises on as they are", async () => {
    const promise = Promise.resolve(7);
    expect(
      spanned(
        "promise",
        () => ({}),
        () => promise,
      ),
    ).toBe(promise);
    expect(spans("promise")).toEqual([]);
    await promise;
    expect(spans("promise")).toHaveLength(1);
    expect(
      spanned(
        "value",
        () => ({ a: 1, b: undefined }),
        () => 7,
      ),
    ).toBe(7);
    expect(spans("value")[0]!.attributes).toEqual({ a: 1 });
  });
});

describe("without OpenTelemetry", () => {
  it("the work just runs, and nobody is asked for attributes", async () => {
    const tracing = new Tracing(() => Promise.reject(new Error("Cannot find package")));
    await tracing.ready;
    const attributes = jest.fn(() => ({}));
    expect(tracing.spanned("work", attributes, () => 7)).toBe(7);
    expect(attributes).not.toHaveBeenCalled();
  });

  it("work just runs while nobody has registered a provider, as others depend on the API too", async () => {
    const api = {
      trace: {
        getTracerProvider: () => new ProxyTracerProvider(),
        getTracer: (): never => {
          throw new Error("a tracer for nobody");
        },
      },
    };
    const tracing = new Tracing(() => Promise.resolve(api as never));
    await tracing.ready;
    const attributes = jest.fn(() => ({}));
    expect(tracing.spanned("work", attributes, () => context.active())).toBe(context.active());
    expect(attributes).not.toHaveBeenCalled();
  });

  it("work that begins before the API is there runs without a span", async () => {
    let loaded = (_: { trace: typeof trace }): void => undefined;
    const tracing = new Tracing(() => new Promise((resolve) => (loaded = resolve)));
    expect(
      tracing.spanned(
        "early",
        () => ({}),
        () => 7,
      ),
    ).toBe(7);
    loaded({ trace });
    await tracing.ready;
    expect(
      tracing.spanned(
        "late",
        () => ({}),
        () => 8,
      ),
    ).toBe(8);
    expect(spans().map(({ name }) => name)).toEqual(["late"]);
  });

  it.each(["esm", "cjs"] as const)("a build finds the API where it is, and is silent where it is not (%s)", async (format) => {
    const { build } = await import("esbuild");
    const folder = dirname(tempFile());
    const file = join(folder, format === "esm" ? "tracing.mjs" : "tracing.cjs");
    const root = join(__dirname, "..", "..");
    await build({
      entryPoints: [join(root, "src", "tracing.ts")],
      outfile: file,
      format,
      bundle: true,
      platform: "node",
      target: "node20",
      external: ["@opentelemetry/*"],
      logLevel: "silent",
    });
    const script = join(folder, "script.mjs");
    // The provider is registered after the API was loaded, as programs do.
    writeFileSync(
      script,
      `import * as built from "./${format === "esm" ? "tracing.mjs" : "tracing.cjs"}";
      const { beginTracing, spanned } = built.default ?? built;
      const started = [];
      const startActiveSpan = (name, options, work) => (started.push(name), work({ isRecording: () => false, end() {} }));
      await beginTracing().ready;
      const api = await import("@opentelemetry/api").catch(() => undefined);
      api?.trace.setGlobalTracerProvider({ getTracer: () => ({ startActiveSpan }) });
      console.log(spanned("work", () => ({}), () => 7), started.join());`,
    );
    const run = (): string =>
      execFileSync(process.execPath, [script], { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    expect(run()).toBe("7 \n");
    mkdirSync(join(folder, "node_modules", "@opentelemetry"), { recursive: true });
    symlinkSync(join(root, "node_modules", "@opentelemetry", "api"), join(folder, "node_modules", "@opentelemetry", "api"));
    expect(run()).toBe("7 work\n");
  });
});

describe("the log", () => {
  it.each([
    ["plain", undefined],
    ["encrypted", { key: KEY }],
  ])("takes a logger of pino's shape, and no line carries a payload: %s", async (_, encryption) => {
    const logger = listener();
    const saver = openSaver(tempFile(), {
      logger,
      encryption,
      retention: { keepLast: 3 },
      onCheckpointError: "continue",
    });
    const graph: any = secretGraph(saver);
    saver.events.on("checkpoint", () => {
      throw new Error("the listener's own");
    });
    await graph.invoke(input("go"), at("go"));
    await graph.invoke(input("ask"), at("ask"));
    await graph.invoke(answer, at("ask"));
    await expect(graph.invoke(input("break"), at("break"))).rejects.toThrow(SECRET);
    // A value that cannot be saved.
    await graph.invoke({ ...input("go"), pin: () => SECRET }, at("go")).catch(() => undefined);
    await saver.prune({ keepLast: 1 });
    await saver.deleteThread("ask");
    saver.close();
    expect(logger.lines.length).toBeGreaterThan(0);
    const told = logger.lines.map(({ level, fields, text }) => `${level} ${text} ${JSON.stringify(fields, withErrors)}`);
    expect(told.filter((line) => line.includes(SECRET) || line.includes(SMALL))).toEqual([]);
    // pino's way: an object first, then a text.
    expect(logger.lines.filter(({ fields, text }) => typeof fields !== "object" || text === "")).toEqual([]);
  });
});

function withErrors(_: string, value: unknown): unknown {
  return value instanceof Error ? { ...value, message: value.message, stack: value.stack } : value;
}
