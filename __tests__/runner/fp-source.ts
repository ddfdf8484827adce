/** A node that writes a text, which is a part of its source. */
export function writing(text: string): () => object {
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- only a function made from text has a source that a test can vary
  return new Function(`return { log: [${JSON.stringify(text)}] }`) as () => object;
}
