import type { ProxyTracerProvider, Span, Tracer, TracerProvider } from "@opentelemetry/api";
import { TurnsError } from "./errors";

type Attribute = string | number | boolean | undefined;
/** Identifiers and numbers, never payloads; what is undefined is left out. */
export type SpanAttributes = Readonly<Record<string, Attribute>>;

const NONE: SpanAttributes = {};
const NAME = "langgraph-checkpoint-turns";
/** `SpanStatusCode.ERROR`: the API itself is there only when it has been loaded. */
const ERROR = 2;

/** What is used of OpenTelemetry's API. */
interface Api {
  trace: { getTracerProvider(): TracerProvider | undefined };
}

/** Where every copy of the API, from 1.0 up to 2, keeps what is registered with it, so that all copies in a process share it. */
const REGISTRY = Symbol.for("opentelemetry.js.api.1");

/** Asks that registry. The package itself may be missing, and an import of it would be an error or a warning to most bundlers. */
const registered: Api = {
  trace: { getTracerProvider: () => (globalThis as { [REGISTRY]?: { trace?: TracerProvider } })[REGISTRY]?.trace },
};

/**
 * Spans of OpenTelemetry, if a tracer provider is registered with its API, an optional peer dependency. Where none is, the work just runs.
 * Nothing ever waits for it: `put` and `putWrites` commit before their first await.
 */
export class Tracing {
  /** Resolves when the API is loaded, or known to be missing. */
  readonly ready: Promise<void>;
  #api: Api | undefined;

  constructor(load: () => Promise<Api | undefined> = () => Promise.resolve(registered)) {
    this.ready = load().then(
      (api) => {
        this.#api = api;
      },
      () => undefined,
    );
  }

  /** Undefined while no provider is registered: the API's own stand-in makes a span and a context for nobody. */
  get #tracer(): Tracer | undefined {
    const provider: (TracerProvider & Partial<ProxyTracerProvider>) | undefined = this.#api?.trace.getTracerProvider();
    return provider?.getDelegateTracer === undefined ? provider?.getTracer(NAME) : provider.getDelegateTracer(NAME);
  }

  /** See {@link spanned}. */
  spanned<T>(name: string, attributes: () => SpanAttributes, work: () => T, initial: SpanAttributes = NONE): T {
    const tracer = this.#tracer;
    if (tracer === undefined) return work();
    return tracer.startActiveSpan(name, { attributes: initial }, (span) => {
      // The API may be there, as others depend on it, and nobody listen.
      if (span.isRecording()) span.setAttributes(attributes());
      return within(span, work);
    });
  }
}

/** Only spares looking for the package again; where a build has it twice, nothing is lost. */
let shared: Tracing | undefined;

/** Looks for the API, once in a process. */
export function beginTracing(): Tracing {
  return (shared ??= new Tracing());
}

/**
 * Runs the work within a span: its parent is the active one, and it is the active one for what the work begins. The work begins at once,
 * and what it returns is handed on as it is; of a promise the span ends when it settles. What the work throws, or rejects with, is on
 * record in the span, and thrown.
 *
 * @param attributes asked for only if there is somebody to tell
 * @param initial those that a sampler may decide by
 */
export function spanned<T>(name: string, attributes: () => SpanAttributes, work: () => T, initial?: SpanAttributes): T {
  return shared === undefined ? work() : shared.spanned(name, attributes, work, initial);
}

/** The span of an operation on the database, named as OpenTelemetry's conventions for databases have it. */
export function storeSpan<T>(operation: string, table: string, attributes: () => SpanAttributes, work: () => T): T {
  const conventional = { "db.system.name": "sqlite", "db.operation.name": operation, "db.collection.name": table };
  return spanned(`${operation} ${table}`, attributes, work, conventional);
}

/** Of a LangGraph config, whatever it is: what is wrong with it is the work's to say. So of all that follow. */
export function configAttributes(config: unknown): SpanAttributes {
  return picked((config as { configurable?: unknown } | null | undefined)?.configurable, {
    thread_id: "langgraph.thread_id",
    checkpoint_ns: "langgraph.checkpoint_ns",
    checkpoint_id: "langgraph.checkpoint_id",
  });
}

export function checkpointAttributes(checkpoint: unknown, metadata: unknown): SpanAttributes {
  const described = picked(metadata, { step: "langgraph.step", source: "langgraph.source" });
  return { ...picked(checkpoint, { id: "langgraph.checkpoint_id" }), ...described };
}

export function rewindAttributes(request: unknown): SpanAttributes {
  return picked(request, { threadId: "langgraph.thread_id", toTask: "langgraph.task_id", dryRun: "langgraph.dry_run" });
}

function picked(from: unknown, names: Readonly<Record<string, string>>): SpanAttributes {
  if (typeof from !== "object" || from === null) return {};
  const isAttribute = (value: unknown): value is Attribute => ["string", "number", "boolean"].includes(typeof value);
  return Object.fromEntries(
    Object.entries(names).flatMap(([name, attribute]) => {
      const value = (from as Record<string, unknown>)[name];
      return isAttribute(value) ? [[attribute, value] as const] : [];
    }),
  );
}

function within<T>(span: Span, work: () => T): T {
  let result: T;
  try {
    result = work();
  } catch (error) {
    failed(span, error);
    throw error;
  }
  if (!(result instanceof Promise)) span.end();
  else {
    void result.then(
      () => span.end(),
      (error: unknown) => failed(span, error),
    );
  }
  return result;
}

/** Our errors carry identifiers only. Others may quote what they failed on: their name has to do. */
function failed(span: Span, error: unknown): void {
  const name = error instanceof Error ? error.name : typeof error;
  const message = TurnsError.is(error) ? error.message : name;
  span.setAttribute("error.type", TurnsError.is(error) ? error.code : name);
  span.recordException({ name, message });
  span.setStatus({ code: ERROR, message });
  span.end();
}
