// The same server with Hono.
import { appendFileSync } from "node:fs";
import { serve } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { openAgent } from "./agent";
import { Chat, drainOnSigterm, type Request, type Run, statusOf } from "./chat";

const { DATABASE = "chat.db", PORT = "3000" } = process.env;
const chat = new Chat(openAgent(DATABASE, (letter) => appendFileSync(`${DATABASE}.letters`, `${letter}\n`)));
const app = new Hono();

/** Sends a run's events as they arrive (server-sent events). A client that disconnects stops its run. */
async function stream(context: Context, threadId: string, request: Request): Promise<Response> {
  let run: Run;
  try {
    run = await chat.begin(threadId, request);
  } catch (error) {
    return context.json({ error: (error as Error).message }, statusOf(error));
  }
  return streamSSE(context, async (sse) => {
    sse.onAbort(run.stop);
    for await (const { event, data } of run.events) await sse.writeSSE({ event, data: JSON.stringify(data) });
  });
}

app.post("/threads/:id/messages", async (context) => {
  const { text } = await context.req.json<{ text: string }>();
  return stream(context, context.req.param("id"), { kind: "message", text });
});
app.post("/threads/:id/answer", async (context) => {
  const { answer } = await context.req.json<{ answer: string }>();
  return stream(context, context.req.param("id"), { kind: "answer", answer });
});
app.post("/threads/:id/continue", (context) => stream(context, context.req.param("id"), { kind: "continue" }));
app.post("/threads/:id/stop", (context) => context.json({ stopped: chat.stop(context.req.param("id")) }));
app.get("/threads/:id", async (context) => context.json(await chat.state(context.req.param("id"))));

const server = serve({ fetch: app.fetch, port: Number(PORT) }, ({ port }) => console.log(`listening on ${port}`));
drainOnSigterm(chat.agent, server);
