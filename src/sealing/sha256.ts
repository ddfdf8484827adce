import * as crypto from "node:crypto";

/** `crypto.hash` takes two thirds of the time, and is missing before Node 20.12. */
const hash = (crypto as { hash?: typeof crypto.hash }).hash;

/** SHA-256 of the text as UTF-8, 43 characters of base64url. */
export const sha256: (text: string) => string =
  hash === undefined
    ? (text) => crypto.createHash("sha256").update(text, "utf8").digest("base64url")
    : (text) => hash("sha256", text, "base64url");
