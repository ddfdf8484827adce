import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { AIMessage, AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import { FakeStreamingChatModel } from "@langchain/core/utils/testing";
import { z } from "zod";

/** Asks for two tools at once, then sums up; streams its answer in pieces. */
class ScriptedModel extends FakeStreamingChatModel {
  override bindTools(): any {
    return this;
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const message = new AIMessage(answerTo(messages));
    return { generations: [{ text: message.text, message }] };
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    _options?: unknown,
    run?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const { id, content, tool_calls: calls, usage_metadata } = answerTo(messages);
    const pieces = content.split(" ");
    for (const [index, text] of pieces.entries()) {
      const isLast = index === pieces.length - 1;
      const message = new AIMessageChunk({
        id,
        content: text,
        ...(isLast ? { usage_metadata } : {}),
        tool_call_chunks: isLast
          ? calls.map((call, at) => ({
              name: call.name,
              id: call.id,
              type: "tool_call_chunk" as const,
              args: JSON.stringify(call.args),
              index: at,
            }))
          : [],
      });
      yield new ChatGenerationChunk({ text, message });
      await run?.handleLLMNewToken(text);
    }
  }
}

function answerTo(messages: BaseMessage[]) {
  const usage_metadata = { input_tokens: messages.length, output_tokens: 2, total_tokens: messages.length + 2 };
  const turn = messages.filter((message) => message.type === "human").length;
  if (messages.at(-1)?.type !== "human") return { id: `ai-${turn}-b`, content: "the answer", tool_calls: [], usage_metadata };
  const tool_calls = [
    { name: "add", args: { a: turn, b: 2 }, id: `call-${turn}-1`, type: "tool_call" as const },
    { name: "shout", args: { text: "hi" }, id: `call-${turn}-2`, type: "tool_call" as const },
  ];
  return { id: `ai-${turn}-a`, content: "let me see", tool_calls, usage_metadata };
}

export const scriptedModel = (): ScriptedModel => new ScriptedModel({ responses: [] });

export const tools = [
  tool(({ a, b }) => String(a + b), {
    name: "add",
    description: "adds",
    schema: z.object({ a: z.number(), b: z.number() }),
  }),
  tool(({ text }) => text.toUpperCase(), { name: "shout", description: "shouts", schema: z.object({ text: z.string() }) }),
];
