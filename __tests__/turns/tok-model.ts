import { BaseChatModel, type BaseChatModelCallOptions } from "@langchain/core/language_models/chat_models";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { AIMessage, AIMessageChunk, type BaseMessage, type UsageMetadata } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";

export interface Reply {
  text?: string;
  usage?: UsageMetadata;
  /** Of an older integration. */
  llmOutput?: Record<string, unknown>;
  /** Several answers to the one prompt, each with the usage of the call. */
  candidates?: number;
  toolCall?: { name: string; args: Record<string, unknown> };
}

/** `usage(1, 2, 3, 4)`: input, output, cached, reasoning. */
export function usage(input: number, output: number, cached = 0, reasoning = 0): UsageMetadata {
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    ...(cached === 0 ? {} : { input_token_details: { cache_read: cached } }),
    ...(reasoning === 0 ? {} : { output_token_details: { reasoning } }),
  };
}

/** Answers with what it was given, one after the other and then the last again. It does not stream. */
export class AnsweringModel extends BaseChatModel {
  readonly #replies: readonly Reply[];
  readonly #before: () => Promise<void> | void;
  #calls = 0;

  constructor(replies: readonly Reply[], before: () => Promise<void> | void = () => undefined) {
    super({});
    this.#replies = replies;
    this.#before = before;
  }

  override _llmType(): string {
    return "answering";
  }

  override bindTools(): this {
    return this;
  }

  override async _generate(_messages: BaseMessage[]): Promise<ChatResult> {
    const reply = this.#replies[Math.min(this.#calls++, this.#replies.length - 1)] as Reply;
    await this.#before();
    const generations = Array.from({ length: reply.candidates ?? 1 }, () => ({
      text: reply.text ?? "",
      message: new AIMessage({
        content: reply.text ?? "",
        ...(reply.usage === undefined ? {} : { usage_metadata: reply.usage }),
        ...(reply.toolCall === undefined ? {} : { tool_calls: [{ id: "call-1", ...reply.toolCall }] }),
      }),
    }));
    return { generations, ...(reply.llmOutput === undefined ? {} : { llmOutput: reply.llmOutput }) };
  }
}

/** Streams chunks as providers do: usage comes with some of them. An error in the list breaks the stream there. */
export class StreamingModel extends BaseChatModel {
  readonly #chunks: readonly (Reply | Error)[];

  constructor(chunks: readonly (Reply | Error)[]) {
    super({});
    this.#chunks = chunks;
  }

  override _llmType(): string {
    return "streaming";
  }

  override async _generate(): Promise<ChatResult> {
    throw new Error("this model only streams");
  }

  override async *_streamResponseChunks(
    _messages: BaseMessage[],
    _options: BaseChatModelCallOptions,
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    for (const reply of this.#chunks) {
      if (reply instanceof Error) throw reply;
      const text = reply.text ?? "";
      const chunk = new ChatGenerationChunk({
        text,
        message: new AIMessageChunk({ content: text, ...(reply.usage === undefined ? {} : { usage_metadata: reply.usage }) }),
      });
      yield chunk;
      await runManager?.handleLLMNewToken(text, undefined, undefined, undefined, undefined, { chunk });
    }
  }
}
