const FIRST_BYTES = 16_384;
/** A larger buffer goes after its use. */
const MOST_KEPT = 1_048_576;
/** UTF-8 takes so many bytes at most for each unit of a JavaScript string. Those of a long one are counted. */
const MOST_BYTES = 3;
const LONG = 1_000;
const NULL = -1;

/**
 * Messages of PostgreSQL's protocol (version 3) to the server, in one buffer. The driver would make three small ones for each
 * statement, which costs more than all else that it does.
 */
export class Messages {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #at = 0;
  /** Where the length of the current message stands. */
  #length = 0;

  /** @param name of the statement; empty for one that the server forgets with the next one */
  parse(name: string, text: string): void {
    this.#begin("P");
    this.#closed(name);
    this.#closed(text);
    // The server finds out the types of all parameters.
    this.#int16(0);
    this.#end();
  }

  /** Parameters and results are text. */
  bind(name: string, values: readonly (string | null)[]): void {
    this.#begin("B");
    this.#closed("");
    this.#closed(name);
    this.#int16(0);
    this.#int16(values.length);
    for (const value of values) {
      if (value === null) this.#int32(NULL);
      else this.#counted(value);
    }
    this.#int16(0);
    this.#end();
  }

  /** Asks what columns the rows of the bound statement have. */
  describe(): void {
    this.#begin("D");
    this.#closed("P");
    this.#end();
  }

  /** Runs the bound statement to its end. */
  execute(): void {
    this.#begin("E");
    this.#closed("");
    this.#int32(0);
    this.#end();
  }

  /** Lets the server forget a statement; also one that it doesn't know. */
  close(name: string): void {
    this.#begin("C");
    this.#closed(`S${name}`);
    this.#end();
  }

  sync(): void {
    this.#begin("S");
    this.#end();
  }

  /** What was written since the last call. */
  taken(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#at));
    this.#at = 0;
    if (this.#bytes.length > MOST_KEPT) this.#bytes = Buffer.allocUnsafe(FIRST_BYTES);
    return taken;
  }

  #begin(type: string): void {
    this.#reserve(5);
    this.#bytes[this.#at] = type.charCodeAt(0);
    this.#length = this.#at + 1;
    this.#at += 5;
  }

  #end(): void {
    this.#bytes.writeInt32BE(this.#at - this.#length, this.#length);
  }

  /** A string with a NUL behind it. */
  #closed(text: string): void {
    this.#reserve(roomFor(text) + 1);
    this.#at += this.#bytes.write(text, this.#at);
    this.#bytes[this.#at] = 0;
    this.#at += 1;
  }

  /** A string behind the number of its bytes. */
  #counted(text: string): void {
    this.#reserve(roomFor(text) + 4);
    const written = this.#bytes.write(text, this.#at + 4);
    this.#bytes.writeInt32BE(written, this.#at);
    this.#at += 4 + written;
  }

  #int16(value: number): void {
    this.#reserve(2);
    this.#at = this.#bytes.writeUInt16BE(value, this.#at);
  }

  #int32(value: number): void {
    this.#reserve(4);
    this.#at = this.#bytes.writeInt32BE(value, this.#at);
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + bytes));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}

function roomFor(text: string): number {
  return text.length > LONG ? Buffer.byteLength(text) : text.length * MOST_BYTES;
}
