/**
 * Makes an error that LangChain passes on without printing it.
 *
 * LangChain writes ``console.error(`Error in handler ${name}, …: ${error}`)`` for every error of a callback handler, and only then
 * rethrows it. The recorder throws on purpose, to stop a node, and the caller of the graph gets the error anyway. What is returned here
 * throws the error itself when it is made a text, so nothing is printed and LangChain's callers get the very error. For a LangChain that
 * doesn't make it a text, it stands in for the error by inheriting from it.
 *
 * @param error what a handler is about to throw
 */
export function unprinted(error: unknown): Error {
  const standIn = Object.create(error instanceof Error ? error : new Error(String(error))) as Error;
  return Object.defineProperty(standIn, Symbol.toPrimitive, {
    value: () => {
      throw error;
    },
  });
}
