/** Above this length the native stringifier is faster than looking first. */
const SHORT = 64;
// eslint-disable-next-line no-control-regex -- control characters are exactly what JSON must escape
const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/;

/** A string as JSON text; lone surrogates come out as escapes, so the text is always valid UTF-8. */
export function quote(text: string): string {
  return text.length <= SHORT && !NEEDS_ESCAPE.test(text) ? `"${text}"` : JSON.stringify(text);
}
