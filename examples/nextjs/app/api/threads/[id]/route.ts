import { randomUUID } from "node:crypto";
import { TurnsError } from "langgraph-checkpoint-turns";
import { agent } from "../../../../lib/agent";

// The file needs Node.js and a long-lived process: not the edge runtime, and not a function that is frozen between requests.
export const runtime = "nodejs";
export const dynamic = "force-dynamic";

/** What streamMode "messages" gives: a piece of a message, and what is known of its model's call. */
type Chunks = AsyncIterable<readonly [{ text: string }, unknown]>;

interface Context {
  params: Promise<{ id: string }>;
}

/** Takes a message, or nothing to continue. The answer is a stream of server-sent events. Closing the request stops the run. */
export async function POST(request: Request, { params }: Context): Promise<Response> {
  const { id: threadId } = await params;
  const { text } = (await request.json()) as { text?: string };
  const input = text === undefined ? null : { messages: [{ role: "user", content: text }] };
  const options = { threadId, taskId: text === undefined ? undefined : randomUUID(), signal: request.signal };
  let chunks: Chunks;
  try {
    chunks = await agent().stream(input, { ...options, streamMode: "messages" });
  } catch (error) {
    return Response.json({ error: (error as Error).message }, { status: statusOf(error) });
  }
  const headers = { "content-type": "text/event-stream", "cache-control": "no-cache" };
  return new Response(streamOf(events(chunks)), { headers });
}

/** 503: try again, another process is coming. 409: the thread is already running. */
function statusOf(error: unknown): number {
  if (TurnsError.is(error, "STORE_DRAINING")) return 503;
  return TurnsError.is(error, "THREAD_RUNNING") ? 409 : 500;
}

function streamOf(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await texts.next();
      if (done === true) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    cancel: () => void texts.return(undefined),
  });
}

export async function GET(_: Request, { params }: Context): Promise<Response> {
  const { id } = await params;
  const { values, next } = await agent().graph.getState({ configurable: { thread_id: id } });
  const { messages = [] } = values as { messages?: { text: string }[] };
  return Response.json({ messages: messages.map(({ text }) => text), next });
}

async function* events(chunks: Chunks): AsyncGenerator<string> {
  const event = (name: string, data: unknown): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  try {
    for await (const [message] of chunks) yield event("token", message.text);
    yield event("done", {});
  } catch (error) {
    yield event("error", { code: TurnsError.is(error) ? error.code : "INTERNAL" });
  }
}
