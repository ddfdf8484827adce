/*
 * The seqs of a thread are thread * SPAN + n, where n counts what was saved on the thread. So a seq identifies its thread, is
 * used once in a file, and everything of a thread lies in one range, in the order of saving.
 */
export const SPAN = 67_108_864;
/** The greatest thread number whose seqs are safe integers in JavaScript. */
export const THREADS_MAX = Math.floor(Number.MAX_SAFE_INTEGER / SPAN) - 1;

export function firstSeq(thread: number): number {
  return thread * SPAN;
}

export function threadOfSeq(seq: number): number {
  return Math.floor(seq / SPAN);
}

/** The seq of the same place in another thread, or in the same one. 0 isn't a place. */
export function seqIn(thread: number, seq: number): number {
  return seq === 0 ? 0 : firstSeq(thread) + (seq % SPAN);
}

/** SQL: a column has a seq of the given thread; by default of the thread whose number is bound as `?1`. */
export function ofThread(column = "seq", thread = "?1"): string {
  return `${column} > ${thread} * ${SPAN} AND ${column} < (${thread} + 1) * ${SPAN}`;
}
