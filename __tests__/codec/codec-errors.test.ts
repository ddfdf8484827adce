import {
  Annotation,
  Command,
  EmptyInputError,
  GraphInterrupt,
  GraphRecursionError,
  InvalidUpdateError,
  NodeInterrupt,
  ParentCommand,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { decode, encode, TurnsError } from "../../src/testing-internal";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";

const roundTrip = (value: unknown): any => decode(encode(value));

class Custom extends TypeError {
  readonly at = new Date(1);
  readonly nothing = undefined;
  constructor(
    message: string,
    readonly reason: unknown,
  ) {
    super(message, { cause: new RangeError("why", { cause: [1n] }) });
    this.name = "Custom";
  }
  get code(): string {
    return "E_CUSTOM";
  }
  method(): void {}
}

describe("Values: errors of classes outside the table", () => {
  it("Values: in the state, an error of an own class is restored as the built-in one it extends, a DOMException as an Error", async () => {
    const path = tempFile();
    const State = Annotation.Root({ own: Annotation<Custom>(), abort: Annotation<DOMException>() });
    const [own, abort] = [new Custom("what", "why"), AbortSignal.abort().reason as DOMException];
    const builder = new StateGraph(State).addNode("a", () => ({ own, abort })).addEdge(START, "a");
    const thread = { configurable: { thread_id: "t" } };
    const saver = openSaver(path);
    const saved = await saver.attach(builder.compile({ checkpointer: saver })).invoke({}, thread);
    // The run itself passes on the error as it is.
    expect([saved.own, saved.abort]).toEqual([own, abort]);
    expect(saved.own).toBeInstanceOf(Custom);
    saver.close();
    const another = openSaver(path);
    const { values } = await another.attach(builder.compile({ checkpointer: another })).getState(thread);
    const back = values as { own: any; abort: any };
    expect([back.own, back.abort].map((error) => Object.getPrototypeOf(error))).toEqual([TypeError.prototype, Error.prototype]);
    expect([back.own.name, back.own.message, back.own.stack]).toEqual(["Custom", "what", own.stack]);
    expect([back.own.code, back.own.reason, back.own.at]).toEqual(["E_CUSTOM", "why", new Date(1)]);
    expect(back.own.cause).toEqual(own.cause);
    expect(back.own.method).toBeUndefined();
    expect([back.abort.name, back.abort.message, back.abort.code]).toEqual(["AbortError", abort.message, abort.code]);
    another.close();
  });

  it("Values: a custom error is restored as the built-in class it extends, with all it had", () => {
    const value = new Custom("what", new Map([[1, 2]]));
    const back = roundTrip({ list: [value] }).list[0];
    expect(Object.getPrototypeOf(back)).toBe(TypeError.prototype);
    expect([back.name, back.message, back.stack, back.code]).toEqual(["Custom", "what", value.stack, "E_CUSTOM"]);
    expect([back.at, back.reason, Object.hasOwn(back, "nothing")]).toStrictEqual([new Date(1), new Map([[1, 2]]), true]);
    expect(back.cause).toBeInstanceOf(RangeError);
    expect([back.cause.stack, back.cause.cause]).toStrictEqual([(value.cause as Error).stack, [1n]]);
    expect(encode(value)).toContain('"c":"Custom"');
  });

  it("Values: a name and a message that the class has, not the error, are kept", () => {
    class Odd extends RangeError {}
    Odd.prototype.name = "OddName";
    Odd.prototype.message = "said by the class";
    const back = roundTrip(new Odd());
    expect([back.name, back.message, Object.keys(back)]).toEqual(["OddName", "said by the class", []]);
    expect(Object.getPrototypeOf(back)).toBe(RangeError.prototype);
  });

  it("Values: a custom AggregateError keeps its errors, regardless of their classes", () => {
    class Many extends AggregateError {}
    const back = roundTrip(new Many([new Custom("a", 1), "b"], "both"));
    expect(Object.getPrototypeOf(back)).toBe(AggregateError.prototype);
    expect([back.errors[0].name, back.errors[0].reason, back.errors[1]]).toEqual(["Custom", 1, "b"]);
  });

  it("Values: a class named like a built-in is restored as what it extends", () => {
    const back = roundTrip(new (class TypeError extends Error {})("x"));
    expect(Object.getPrototypeOf(back)).toBe(Error.prototype);
  });

  it("Values: an error of the old style and one with a toJSON are restored as errors", () => {
    function Old(this: any): void {
      this.message = "old";
    }
    Old.prototype = Object.create(Error.prototype);
    expect(roundTrip(new (Old as any)())).toBeInstanceOf(Error);
    expect(roundTrip(new (Old as any)()).message).toBe("old");
    class WithJson extends Error {
      toJSON(): unknown {
        return "lost";
      }
    }
    expect(decode(encode(new WithJson("kept"), { classInstances: "plain" }))).toMatchObject({ message: "kept" });
  });

  it.each<[string, () => any]>([
    ["GraphInterrupt", () => new GraphInterrupt([{ id: "1", value: new Set([1]) }])],
    ["NodeInterrupt", () => new NodeInterrupt("wait")],
    ["GraphRecursionError", () => new GraphRecursionError("deep", { lc_error_code: "GRAPH_RECURSION_LIMIT" })],
    ["InvalidUpdateError", () => new InvalidUpdateError("no")],
    ["EmptyInputError", () => new EmptyInputError("no")],
    ["ParentCommand", () => new ParentCommand(new Command({ graph: Command.PARENT, goto: "a" }))],
    ["CheckpointNotFoundError", () => new TurnsError("CHECKPOINT_NOT_FOUND", { problem: "p", remedy: "r" })],
  ])("Values: %s comes back with its name and its parts", (name, make) => {
    const value = make();
    const back = roundTrip(value);
    expect(Object.getPrototypeOf(back)).toBe(Error.prototype);
    expect([back.name, back.message, back.stack]).toEqual([name, value.message, value.stack]);
    expect({ ...back }).toStrictEqual({ ...value });
    expect(Object.keys(back)).toEqual(Object.keys(value));
  });

  it("Values: an AbortError is restored with name, message, code and cause", () => {
    const reason = AbortSignal.abort().reason as DOMException;
    const back = roundTrip(reason);
    expect(Object.getPrototypeOf(back)).toBe(Error.prototype);
    expect([back.name, back.message, back.code]).toEqual(["AbortError", reason.message, 20]);
    const caused = roundTrip(new DOMException("what", { name: "DataError", cause: new Date(1) } as never));
    expect([caused.name, caused.cause]).toStrictEqual(["DataError", new Date(1)]);
  });

  it("Values: what an error holds is refused as elsewhere, with its path", () => {
    let thrown: any;
    try {
      encode({ e: new Custom("x", () => 1) });
    } catch (error) {
      thrown = error;
    }
    expect([thrown.code, thrown.data]).toEqual(["UNSERIALIZABLE_VALUE", { path: "e.reason" }]);
  });

  it("Values: the name of a class in a text constructs nothing", () => {
    const back: any = decode('{"~":"Error","v":{"message":"m"},"c":"Function"}');
    expect(Object.getPrototypeOf(back)).toBe(Error.prototype);
    expect(() => decode('{"~":"Error","v":{},"c":1}')).toThrow(/malformed/);
  });
});
