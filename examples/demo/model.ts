import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import { FakeChatModel } from "@langchain/core/utils/testing";

/** Stands in for a chat model: the same answer to the same question, no network, and it reports its usage (in words) as models do. */
export class ScriptedModel extends FakeChatModel {
  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const items = messages.at(-1)?.text.split("\n").slice(1) ?? [];
    const middle = Math.ceil(items.length / 2);
    const text = JSON.stringify({ a: items.slice(0, middle), b: items.slice(middle) });
    const input_tokens = wordsOf(messages.map((message) => message.text).join(" "));
    const output_tokens = wordsOf(text);
    const message = new AIMessage({
      content: text,
      usage_metadata: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens },
    });
    return { generations: [{ message, text }] };
  }
}

function wordsOf(text: string): number {
  return text.split(/\W+/).filter(Boolean).length;
}
