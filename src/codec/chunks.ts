import { decode } from "./decode";
import { MARKER, tagged } from "./marker";

const TAG = "chunk";

/**
 * The text that stands for a part of a value that is stored elsewhere. The codec never writes it of itself: data that looks like it
 * is escaped as all data with the marker key is.
 * @param address 43 characters of base64url
 */
export function chunkTag(address: string): string {
  return tagged(TAG, `"${address}"`);
}

/**
 * The addresses a text refers to, each once, in the order of the text. Data that merely looks like a reference is none.
 * @throws UNDECODABLE_VALUE for what {@link decode} refuses
 */
export function chunkAddresses(text: string): string[] {
  if (!text.includes(`"${MARKER}":"${TAG}"`)) return [];
  const addresses = new Set<string>();
  // Only the reader itself knows which objects are tags and which are contents of tags.
  decode(text, (address) => void addresses.add(address));
  return [...addresses];
}
