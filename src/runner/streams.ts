import type { ReadableStreamDefaultController } from "node:stream/web";
import { IterableReadableStream } from "@langchain/core/utils/stream";

/**
 * A stream of the chunks as LangGraph returns them: you can iterate it or pass it to a `Response`. Nothing is read before you
 * read. If you stop, the source is stopped at once, even while it has nothing to deliver.
 *
 * @param stop stops the source of the chunks
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

/** Stops a LangGraph stream, even while somebody else is reading it. */
export async function stopped(stream: AsyncIterable<unknown> | undefined): Promise<void> {
  await (stream as Partial<AsyncIterator<unknown>> | undefined)?.return?.();
}
