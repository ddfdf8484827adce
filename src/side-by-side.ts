/**
 * Starts reads that need nothing of each other at once. A database on the network is then asked all of them together.
 *
 * @throws the error of the first of them, in their order, when all have finished
 */
export async function sideBySide<T extends readonly unknown[]>(
  ...reads: { readonly [K in keyof T]: () => T[K] | Promise<T[K]> }
): Promise<T> {
  const ended = await Promise.allSettled(reads.map(async (read: () => unknown) => read()));
  return ended.map((one) => {
    if (one.status === "rejected") throw one.reason;
    return one.value;
  }) as unknown as T;
}

/** A read whose error is thrown where its result is needed. */
export async function attempted<T>(read: () => T | Promise<T>): Promise<() => T> {
  try {
    const value = await read();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}
