import type { ReadableStreamDefaultController } from "node:stream/web";
import { IterableReadableStream } from "@langchain/core/utils/stream";

/**
 * Chunks as LangGraph gives them: to be iterated, or to be handed to a `Response`. Nothing is read before somebody reads, and who stops
 * reading stops the source at once, also while it has nothing to give.
 *
 * @param stop ends what the chunks come from
 */
export function readable<T>(chunks: AsyncGenerator<T>, stop: () => unknown): IterableReadableStream<T> {
  return new IterableReadableStream<T>(
    {
      async pull(controller: ReadableStreamDefaultController<T>) {
        const next = await chunks.next();
        if (next.done === true) controller.close();
        else controller.enqueue(next.value);
      },
      async cancel(reason: unknown) {
        await stop();
        await chunks.return(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Stops a stream of LangGraph's, although somebody else reads it. */
export async function stopped(stream: AsyncIterable<unknown> | undefined): Promise<void> {
  await (stream as Partial<AsyncIterator<unknown>> | undefined)?.return?.();
}
