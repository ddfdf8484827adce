import type { ReadableStreamDefaultController } from "node:stream/web";
import { IterableReadableStream } from "@langchain/core/utils/stream";

/**
 * A stream of the chunks as LangGraph returns them: you can iterate it or pass it to a `Response`. LangGraph runs a graph whether
 * or not anybody reads its stream, and keeps what isn't read. So does this one: an unread stream comes to its end.
 *
 * @param stop is aborted when the reader leaves; that has to end the chunks. The reader then waits for their end
 * @param starts whether the chunks are begun now or when somebody reads
 */
export function readable<T>(
  chunks: AsyncIterable<T>,
  stop: AbortController,
  starts: "now" | "when read",
): IterableReadableStream<T> {
  let end: Promise<void> | undefined;
  const deliver = async (controller: ReadableStreamDefaultController<T>): Promise<void> => {
    try {
      for await (const chunk of chunks) if (!stop.signal.aborted) controller.enqueue(chunk);
      if (!stop.signal.aborted) controller.close();
    } catch (error) {
      controller.error(error);
    }
  };
  return new IterableReadableStream<T>(
    {
      start(controller: ReadableStreamDefaultController<T>) {
        if (starts === "now") end = deliver(controller);
      },
      async pull(controller: ReadableStreamDefaultController<T>) {
        await (end ??= deliver(controller));
      },
      async cancel(reason: unknown) {
        stop.abort(reason);
        await end;
      },
    },
    { highWaterMark: 0 },
  );
}
