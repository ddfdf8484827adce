/** Words before a slash that begins a regular expression. */
const BEFORE_REGEX = /(?:^|[^\w$.])(?:return|typeof|case|in|of|delete|void|throw|new|instanceof|else|do|yield|await)$/;
/** After these a slash divides. After a parenthesis or a brace it may do either. */
const OPERAND_END = /[\w$\]]$/;

/**
 * A function's source without what formatters and people change freely: comments, indentation, blank lines, the platform's line
 * endings. Strings, templates and regular expressions stay as they are.
 *
 * Two sources with different meanings never become equal. If it can't be told whether a slash divides or begins a regular
 * expression, only the line endings are normalised.
 */
export function normalised(source: string): string {
  const text = source.replace(/\r\n?/g, "\n");
  return new Scanner(text).run() ?? text;
}

/** One pass over JavaScript's lexical structure; nothing is parsed. */
class Scanner {
  #at = 0;
  #out = "";
  /** Whitespace or comments since the last token, and whether they contain a line break: `return\nx` is not `return x`. */
  #gap: "" | " " | "\n" = "";
  /** Per open template, the depth of braces inside its `${…}`. */
  readonly #templates: number[] = [];

  constructor(private readonly text: string) {}

  /** Undefined if the text can't be read with certainty. */
  run(): string | undefined {
    while (this.#at < this.text.length) if (!this.#step()) return undefined;
    return this.#templates.length === 0 ? this.#out : undefined;
  }

  #step(): boolean {
    const char = this.text[this.#at] as string;
    const next = this.text[this.#at + 1];
    if (/\s/.test(char)) return this.#skip(this.#at + 1);
    if (char === "/" && next === "/") return this.#skip(this.#endOfLine());
    if (char === "/" && next === "*") return this.#skipComment();
    if (char === '"' || char === "'") return this.#take(this.#endOfString(char));
    if (char === "`") return this.#take(this.#endOfTemplate(this.#at + 1));
    if (char === "/") return this.#slash();
    const open = this.#templates.length - 1;
    if (open >= 0 && char === "{") this.#templates[open] = (this.#templates[open] as number) + 1;
    if (open >= 0 && char === "}") {
      if (this.#templates[open] === 0) {
        this.#templates.pop();
        return this.#take(this.#endOfTemplate(this.#at + 1));
      }
      this.#templates[open] = (this.#templates[open] as number) - 1;
    }
    return this.#take(this.#at + 1);
  }

  #skip(to: number): boolean {
    if (this.text.slice(this.#at, to).includes("\n")) this.#gap = "\n";
    else if (this.#gap === "") this.#gap = " ";
    this.#at = to;
    return true;
  }

  #skipComment(): boolean {
    const end = this.text.indexOf("*/", this.#at + 2);
    return end !== -1 && this.#skip(end + 2);
  }

  #endOfLine(): number {
    const end = this.text.indexOf("\n", this.#at);
    return end === -1 ? this.text.length : end;
  }

  /** Copies a token, or a part of one. */
  #take(to: number | undefined): boolean {
    if (to === undefined) return false;
    if (this.#out !== "") this.#out += this.#gap;
    this.#gap = "";
    this.#out += this.text.slice(this.#at, to);
    this.#at = to;
    return true;
  }

  #endOfString(quote: string): number | undefined {
    for (let at = this.#at + 1; at < this.text.length; at++) {
      if (this.text[at] === "\\") at++;
      else if (this.text[at] === quote) return at + 1;
      else if (this.text[at] === "\n") return undefined;
    }
    return undefined;
  }

  /** To the end of the template, or into the expression that begins inside it. */
  #endOfTemplate(from: number): number | undefined {
    for (let at = from; at < this.text.length; at++) {
      if (this.text[at] === "\\") at++;
      else if (this.text[at] === "`") return at + 1;
      else if (this.text.startsWith("${", at)) {
        this.#templates.push(0);
        return at + 2;
      }
    }
    return undefined;
  }

  #slash(): boolean {
    const before = this.#out;
    const tail = before.slice(-12);
    if (/(?:\+\+|--)$/.test(tail)) return false;
    if (before === "" || BEFORE_REGEX.test(tail) || /[([{,;=:?!&|^~<>%*+-]$/.test(tail)) return this.#take(this.#endOfRegex());
    return OPERAND_END.test(tail) && this.#take(this.#at + 1);
  }

  #endOfRegex(): number | undefined {
    let inClass = false;
    for (let at = this.#at + 1; at < this.text.length; at++) {
      const char = this.text[at];
      if (char === "\n") return undefined;
      if (char === "\\") at++;
      else if (char === "[") inClass = true;
      else if (char === "]") inClass = false;
      else if (char === "/" && !inClass) return at + 1;
    }
    return undefined;
  }
}
