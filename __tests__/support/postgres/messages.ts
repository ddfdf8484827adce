/** A message of PostgreSQL's protocol (version 3) between a client and a server. */
export interface Message {
  readonly from: "client" | "server";
  /** Which connection of the proxy, from 1. */
  readonly connection: number;
  /** The protocol's letter; "" for what comes before the session, e.g. the startup message. */
  readonly type: string;
  /** The statement that a client's message parses, binds or runs; the tag of a server's CommandComplete; otherwise "". */
  readonly text: string;
  readonly bytes: Buffer;
}

const SSL_REQUEST = 80_877_103;
const GSS_REQUEST = 80_877_104;
const CANCEL_REQUEST = 80_877_102;

/** Whether a client's message makes the server commit. */
export function isCommit({ from, type, text }: Message): boolean {
  return from === "client" && (type === "E" || type === "Q") && /\b(commit|end)\s*;?\s*$/i.test(text);
}

/** Whether a server's message says that a commit was carried out. */
export function isCommitAnswer({ from, type, text }: Message): boolean {
  return from === "server" && type === "C" && text === "COMMIT";
}

/** Cuts the two streams of one connection into messages. */
export class MessageReader {
  readonly #connection: number;
  #pending = { client: Buffer.alloc(0), server: Buffer.alloc(0) };
  #started = false;
  /** Requests for encryption that are answered with one byte. */
  #unanswered = 0;
  readonly #statements = new Map<string, string>();
  readonly #portals = new Map<string, string>();

  constructor(connection: number) {
    this.#connection = connection;
  }

  /** The messages that are complete now. @throws if the server begins to encrypt: nothing can be read of that */
  read(from: "client" | "server", chunk: Buffer): Message[] {
    const messages: Message[] = [];
    let bytes = Buffer.concat([this.#pending[from], chunk]);
    for (let next = this.#next(from, bytes); next !== undefined; next = this.#next(from, bytes)) {
      bytes = bytes.subarray(next.bytes.length);
      messages.push({ ...next, from, connection: this.#connection });
    }
    this.#pending[from] = bytes;
    return messages;
  }

  #next(from: "client" | "server", bytes: Buffer): Pick<Message, "type" | "text" | "bytes"> | undefined {
    if (from === "server" && this.#unanswered > 0 && bytes.length > 0) {
      this.#unanswered -= 1;
      if (bytes[0] !== "N".charCodeAt(0))
        throw new Error("the proxy can't look into an encrypted connection: use sslmode=disable");
      return { type: "", text: "", bytes: bytes.subarray(0, 1) };
    }
    const isUntyped = from === "client" && !this.#started;
    const head = isUntyped ? 0 : 1;
    if (bytes.length < head + 4) return undefined;
    const length = head + bytes.readUInt32BE(head);
    if (bytes.length < length) return undefined;
    const message = bytes.subarray(0, length);
    if (isUntyped) {
      const code = message.readUInt32BE(4);
      if (code === SSL_REQUEST || code === GSS_REQUEST) this.#unanswered += 1;
      else if (code !== CANCEL_REQUEST) this.#started = true;
      return { type: "", text: "", bytes: message };
    }
    const type = String.fromCharCode(message[0]!);
    const body = message.subarray(5);
    return {
      type,
      bytes: message,
      text: from === "client" ? this.#statementOf(type, body) : type === "C" ? strings(body, 1)[0]! : "",
    };
  }

  #statementOf(type: string, body: Buffer): string {
    if (type === "Q") return strings(body, 1)[0]!;
    if (type === "P") {
      const [name = "", text = ""] = strings(body, 2);
      this.#statements.set(name, text);
      return text;
    }
    if (type === "B") {
      const [portal = "", name = ""] = strings(body, 2);
      this.#portals.set(portal, this.#statements.get(name) ?? "");
    }
    return type === "B" || type === "E" ? (this.#portals.get(strings(body, 1)[0]!) ?? "") : "";
  }
}

/** The first strings of a message's body; each one is closed by a NUL. */
function strings(body: Buffer, count: number): string[] {
  const found: string[] = [];
  for (let at = 0; found.length < count;) {
    const end = body.indexOf(0, at);
    found.push(body.toString("utf8", at, end));
    at = end + 1;
  }
  return found;
}
