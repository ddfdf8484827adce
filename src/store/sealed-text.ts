/*
 * Sealed bytes in a column that must be text (requirement S1) and is JSON by its name. The codec escapes records with the key
 * "~", so no user state looks like this.
 */
export const SEALED_TEXT = '{"~":"sealed","v":"';
const END = '"}';

export function toSealedText(sealed: Uint8Array): string {
  return `${SEALED_TEXT}${Buffer.from(sealed).toString("base64")}${END}`;
}

/** The bytes; undefined for a text that is not sealed. */
export function fromSealedText(text: string): Buffer | undefined {
  if (!text.startsWith(SEALED_TEXT) || !text.endsWith(END)) return undefined;
  return Buffer.from(text.slice(SEALED_TEXT.length, -END.length), "base64");
}
