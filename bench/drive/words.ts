const CONSONANTS = "bcdfghklmnprstvw";
const VOWELS = "aeiou";
const VOCABULARY = 4_000;

/** Repeatable random numbers from 0 to 1 (mulberry32): every saver and every run sees the same conversation. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export function pick<T>(random: () => number, list: ArrayLike<T>): T {
  return list[Math.floor(random() * list.length)] as T;
}

function word(random: () => number): string {
  let made = "";
  for (let syllable = 1 + Math.floor(random() * 3); syllable >= 0; syllable -= 1)
    made += pick(random, CONSONANTS) + pick(random, VOWELS);
  return made;
}

const random = seeded(7);
const words = Array.from({ length: VOCABULARY }, () => word(random));

/** Prose of about this many bytes; of words that do not repeat each other, so that nothing compresses by accident. */
export function textOf(from: () => number, bytes: number): string {
  let text = pick(from, words);
  while (text.length < bytes) text += (from() < 0.1 ? ".\n" : " ") + pick(from, words);
  return text;
}
