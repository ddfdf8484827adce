import type { BaseTurnSaver } from "../base-saver";
import type { CheckpointHead } from "../store/store";
import { checkpointNamed } from "./place";
import { plain } from "./plain";
import { beginningOf, type Limits, SHORT, type Shown, shownOf, WHOLE } from "./shown";
import { type CheckpointLine, lineOf } from "./checkpoint-line";
import { namesOf, noChannel, only, valuesOf } from "./states";

/** A message of a conversation. */
export interface ChatMessage {
  /** Its place in the channel, from 0. */
  index: number;
  id: string | null;
  /** LangChain's type: human, ai, system, tool, function, or what it calls itself. */
  role: string;
  name: string | null;
  /** Its text, as far as it's shown. */
  text: string;
  /** Whether the text was cut. */
  cut: boolean;
  /** Parts that aren't text: images, files, reasoning. */
  parts: Shown[];
  calls: ToolCall[];
  tokens: { input: number; output: number } | null;
  /** Of a tool's message: the call that it answers, if that isn't on this page. */
  answers: string | null;
  /** Of a tool's message: whether the tool failed. */
  failed: boolean;
}

/** A call of a tool, beside its result. */
export interface ToolCall {
  id: string | null;
  name: string;
  args: Shown;
  /** Null as long as there is none. */
  result: { index: number; text: string; cut: boolean; parts: Shown[]; failed: boolean } | null;
}

interface MessagesRequest {
  /** A turn, a task, or a checkpoint's id or name; undefined: the newest checkpoint. */
  at?: string | undefined;
  channel?: string | undefined;
  /** Only messages before this place in the channel. */
  before?: number | undefined;
  /** How many messages, without results that stand beside their calls. */
  limit?: number | undefined;
  whole?: boolean | undefined;
}

export interface MessagesPage {
  threadId: string;
  checkpoint: CheckpointLine;
  channel: string;
  /** All channels with messages. */
  channels: string[];
  messages: ChatMessage[];
  total: number;
  /** For the page of earlier messages; null if there are none. */
  before: number | null;
}

/**
 * A page of a conversation, the results of tools beside their calls. Without a channel, `messages`, or the first one that has
 * messages.
 *
 * @param address of the whole of a message's part, by the message's place
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND; INVALID_OPTION for a channel that isn't there
 */
export async function messagesAt(
  saver: BaseTurnSaver,
  threadId: string,
  { at, channel, before, limit = 50, whole = false }: MessagesRequest,
  address: (index: number) => string,
): Promise<MessagesPage> {
  const head = await checkpointNamed(saver, threadId, at, "all");
  if (channel !== undefined && head.channels.get(channel)?.pointer === undefined) throw noChannel(head, channel);
  const values = await valuesOf(saver, only(head, channel === undefined ? candidates(head) : [channel]));
  const channels = Object.keys(values).filter((name) => hasMessages(values[name]));
  const chosen = channel ?? (channels.includes("messages") ? "messages" : (channels.sort()[0] ?? "messages"));
  const given = values[chosen];
  const all = (Array.isArray(given) ? (given as unknown[]) : []).map(
    (message) => plain(message) as Record<string, unknown> | null,
  );
  const upto = Math.min(before ?? all.length, all.length);
  const limits = whole ? WHOLE : SHORT;
  const results = resultsByCall(all);
  const besides = new Set<number>();
  const messages: ChatMessage[] = [];
  let index = upto;
  // Backwards: a result comes behind its call.
  while (index > 0 && messages.length < limit) {
    index -= 1;
    const message = chatMessage(all[index], index, { results, limits, address });
    for (const call of message.calls) if (call.result !== null) besides.add(call.result.index);
    messages.unshift(message);
  }
  return {
    ...{ threadId, checkpoint: lineOf(head), channel: chosen, channels },
    messages: messages.filter((message) => !besides.has(message.index)),
    total: all.length,
    before: index > 0 ? index : null,
  };
}

/** Lists, and what is small. A large value of another kind isn't read to find out what it is. */
function candidates(head: CheckpointHead): string[] {
  return namesOf(head).filter((name) => name === "messages" || head.channels.get(name)?.pointer?.kind !== "whole");
}

function hasMessages(value: unknown): boolean {
  return Array.isArray(value) && value.some((item) => isMessage(item));
}

function isMessage(item: unknown): boolean {
  const { getType, content } = (item ?? {}) as { getType?: unknown; content?: unknown };
  return typeof getType === "function" && content !== undefined;
}

interface Result {
  index: number;
  message: Record<string, unknown>;
}

function resultsByCall(all: readonly (Record<string, unknown> | null)[]): Map<string, Result> {
  const results = new Map<string, Result>();
  all.forEach((message, index) => {
    const call = message?.["type"] === "tool" ? message["tool_call_id"] : undefined;
    if (typeof call === "string") results.set(call, { index, message: message as Record<string, unknown> });
  });
  return results;
}

interface Context {
  results: ReadonlyMap<string, Result>;
  limits: Limits;
  address: (index: number) => string;
}

function chatMessage(given: Record<string, unknown> | null | undefined, index: number, context: Context): ChatMessage {
  const isRecord = typeof given === "object" && given !== null && !Array.isArray(given);
  const message = isRecord ? given : { content: given };
  const { type, id, name, tool_calls: calls, usage_metadata: usage, tool_call_id: answers } = message;
  return {
    index,
    id: textOf(id),
    role: textOf(type) ?? textOf(message["role"]) ?? "unknown",
    name: textOf(name),
    ...contentOf(message["content"], index, context),
    calls: Array.isArray(calls) ? calls.map((call) => toolCall(call, index, context)) : [],
    tokens: tokensOf(usage),
    answers: textOf(answers),
    failed: message["status"] === "error",
  };
}

function toolCall(given: unknown, index: number, context: Context): ToolCall {
  const { id, name, args } = (given ?? {}) as Record<string, unknown>;
  const callId = textOf(id);
  const found = callId === null ? undefined : context.results.get(callId);
  const result =
    found === undefined || found.index < index
      ? null
      : {
          index: found.index,
          ...contentOf(found.message["content"], found.index, context),
          failed: found.message["status"] === "error",
        };
  return { id: callId, name: textOf(name) ?? "", args: shownOf(args ?? null, context.address(index), context.limits), result };
}

function contentOf(content: unknown, index: number, { limits, address }: Context): Pick<ChatMessage, "text" | "cut" | "parts"> {
  const parts = Array.isArray(content) ? (content as unknown[]) : [content];
  const texts = parts.map((part) =>
    typeof part === "string" ? part : isTextPart(part) ? (part as { text: string }).text : undefined,
  );
  const text = texts.filter((one) => one !== undefined).join("\n");
  const others = parts.filter((part, at) => texts[at] === undefined && part !== undefined && part !== null);
  const cut = text.length > limits.text;
  return {
    text: cut ? beginningOf(text, limits.text) : text,
    cut,
    parts: others.slice(0, limits.parts).map((part) => shownOf(part, address(index), limits)),
  };
}

function isTextPart(part: unknown): boolean {
  const { type, text } = (part ?? {}) as { type?: unknown; text?: unknown };
  return type === "text" && typeof text === "string";
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function tokensOf(usage: unknown): ChatMessage["tokens"] {
  const { input_tokens: input, output_tokens: output } = (usage ?? {}) as Record<string, unknown>;
  return typeof input === "number" && typeof output === "number" ? { input, output } : null;
}
