import type { ProxyTracerProvider, Span, Tracer, TracerProvider } from "@opentelemetry/api";
import { TurnsError } from "./errors";

type Attribute = string | number | boolean | undefined;
/** Identifiers and numbers, never payloads. Undefined attributes are left out. */
export type SpanAttributes = Readonly<Record<string, Attribute>>;

const NONE: SpanAttributes = {};
const NAME = "langgraph-checkpoint-turns";
/** `SpanStatusCode.ERROR`. The API is available only after it has been loaded. */
const ERROR = 2;

/** The part of OpenTelemetry's API that is used. */
interface Api {
  trace: { getTracerProvider(): TracerProvider | undefined };
}

/** Where every copy of the API, from 1.0 up to 2, keeps its registrations, so that all copies in a process share them. */
const REGISTRY = Symbol.for("opentelemetry.js.api.1");

/** Reads that registry. An import of the package, which may be missing, would be an error or a warning in most bundlers. */
const registered: Api = {
  trace: { getTracerProvider: () => (globalThis as { [REGISTRY]?: { trace?: TracerProvider } })[REGISTRY]?.trace },
};

/**
 * Emits OpenTelemetry spans if a tracer provider is registered with the API, an optional peer dependency. Without one, the work
 * just runs. Nothing ever waits for it, because `put` and `putWrites` hand their changes in before their first await.
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

  /** Undefined while no provider is registered: the API's stand-in would create spans and contexts for nobody. */
  get #tracer(): Tracer | undefined {
    const provider: (TracerProvider & Partial<ProxyTracerProvider>) | undefined = this.#api?.trace.getTracerProvider();
    return provider?.getDelegateTracer === undefined ? provider?.getTracer(NAME) : provider.getDelegateTracer(NAME);
  }

  /** See {@link spanned}. */
  spanned<T>(name: string, attributes: () => SpanAttributes, work: () => T, initial: SpanAttributes = NONE): T {
    const tracer = this.#tracer;
    if (tracer === undefined) return work();
    return tracer.startActiveSpan(name, { attributes: initial }, (span) => {
      // The API may be loaded, because others depend on it, without anybody listening.
      if (span.isRecording()) span.setAttributes(attributes());
      return within(span, work);
    });
  }
}

/** Only saves looking for the package again. Two builds may each have one. */
let shared: Tracing | undefined;

/** Looks for the API, once per process. */
export function beginTracing(): Tracing {
  return (shared ??= new Tracing());
}

/**
 * Runs the work in a span, as a child of the active span and as the active one for what the work starts. The work starts at once,
 * and its return value is passed on as it is. The span of a promise ends when it settles. An error is recorded in the span and
 * thrown.
 *
 * @param attributes called only if somebody is listening
 * @param initial attributes that a sampler may decide by
 */
export function spanned<T>(name: string, attributes: () => SpanAttributes, work: () => T, initial?: SpanAttributes): T {
  return shared === undefined ? work() : shared.spanned(name, attributes, work, initial);
}

/** The span of a database operation, named by OpenTelemetry's conventions for databases. */
export function storeSpan<T>(
  { system }: { readonly system: string },
  operation: string,
  table: string,
  attributes: () => SpanAttributes,
  work: () => T,
): T {
  const conventional = { "db.system.name": system, "db.operation.name": operation, "db.collection.name": table };
  return spanned(`${operation} ${table}`, attributes, work, conventional);
}

/** Accepts any value as the config: checking it is the work's job. The same holds for the functions below. */
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

/** Our errors carry only identifiers. Other errors may quote payload, so only their name is recorded. */
function failed(span: Span, error: unknown): void {
  const name = error instanceof Error ? error.name : typeof error;
  const message = TurnsError.is(error) ? error.message : name;
  span.setAttribute("error.type", TurnsError.is(error) ? error.code : name);
  span.recordException({ name, message });
  span.setStatus({ code: ERROR, message });
  span.end();
}
