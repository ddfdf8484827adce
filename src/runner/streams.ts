import type { ReadableStreamDefaultController } from "node:stream/web";
import { IterableReadableStream } from "@langchain/core/utils/stream";

/**
 * Chunks as LangGraph gives them: to be iterated, or to be handed to a `Response`. Nothing is read before somebody reads, and who stops
 * reading stops the source.
 */
export function readable<T>(chunks: AsyncGenerator<T>): IterableReadableStream<T> {
  return new IterableReadableStream<T>(
    {
      async pull(controller: ReadableStreamDefaultController<T>) {
        const { value, done } = await chunks.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
      async cancel(reason: unknown) {
        await chunks.return(reason);
      },
    },
    { highWaterMark: 0 },
  );
}
