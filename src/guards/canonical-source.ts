import {
  bindingsIn,
  isLiteral,
  isNamed,
  isUndefined,
  isUnused,
  keepsName,
  operandsOf,
  statementOf,
  statementsOf,
} from "./canonical-statements";
import {
  type Canonical,
  conditional,
  equal,
  FOLDED,
  ifTrees,
  isConstant,
  isOf,
  literal,
  logical,
  not,
  NOTHING,
  number,
  sum,
} from "./canonical-values";
import { parseFunction, type Syntax } from "./parse-javascript";
import { type Binding, resolveNames } from "./resolve-names";

/**
 * A function's source in one form for all ways to write the same program. It has no formatting or comments, its own variables are
 * numbered, and rewrites of compilers and minifiers are undone (`if` or `&&`, `const a, b` or two statements, `"a" + "b"`, `!0`,
 * `void 0`, names kept by esbuild, `(0, module.name)()`). Each rewrite here keeps the meaning: two sources with one canonical
 * form do the same.
 *
 * @returns undefined for a source that can't be parsed with certainty
 */
export function canonicalSource(source: string): Canonical | undefined {
  try {
    const root = parseFunction(source);
    resolveNames(root);
    return new Writer().root(root);
  } catch (error) {
    // A text nested too deeply for the stack also counts as not understood.
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** What follows a statement anyway, so that writing it changes nothing. */
type Tail = "return" | "continue" | undefined;

class Writer {
  readonly #locals = new Map<Binding, number>();
  /** Constants that have been declared: each use is replaced by the value. */
  readonly #constants = new Map<Binding, Canonical>();
  /** Of the enclosing classes, the innermost last. */
  readonly #privates: string[][] = [];
  readonly #labels: string[] = [];

  root(node: Syntax): Canonical {
    // A method is named by its key, as a function is by its own name.
    if (node.type === "MethodDefinition")
      return [node["kind"] as string, node["computed"] === true, this.value(node["value"] as Syntax)];
    if (node.type === "FunctionExpression") return ["method", false, this.value(node)];
    return this.value(node);
  }

  // Statements

  /** @param tail what follows the last of these statements anyway */
  #block(statements: readonly Syntax[], tail: Tail): Canonical[] {
    const list = statementsOf(statements);
    return list.flatMap((statement, at) => this.#statement(statement, at === list.length - 1 ? tail : undefined));
  }

  #statement(node: Syntax, tail: Tail): Canonical[] {
    const part = (key: string): Canonical => this.#optional(node[key] as Syntax | null);
    switch (node.type) {
      case "IfStatement":
        return ifTrees(
          this.#condition(node["test"] as Syntax),
          this.#block([node["consequent"] as Syntax], tail),
          node["alternate"] === null ? [] : this.#block([node["alternate"] as Syntax], tail),
        );
      case "ReturnStatement": {
        if (isUndefined(node["argument"] as Syntax | null)) return tail === "return" ? [] : [["return"]];
        return [["return", part("argument")]];
      }
      case "ContinueStatement":
        if (node["label"] === null && tail === "continue") return [];
        return [["continue", this.#label(node["label"] as Syntax | null)]];
      case "BreakStatement":
        return [["break", this.#label(node["label"] as Syntax | null)]];
      case "ThrowStatement":
        return [["throw", part("argument")]];
      case "VariableDeclaration":
        return this.#isConstant(node) ? [] : [this.#declaration(node)];
      case "ExpressionStatement": {
        const expression = node["expression"] as Syntax;
        // Nobody uses its value.
        if (expression.type === "UpdateExpression")
          return [["++", expression["operator"] as string, this.value(expression["argument"] as Syntax)]];
        return [["do", this.value(expression)]];
      }
      case "FunctionDeclaration":
        return [["function", this.#name(node["id"] as Syntax), this.#function(node)]];
      case "ClassDeclaration":
        return [["class", this.#name(node["id"] as Syntax), this.#class(node)]];
      case "ForStatement": {
        const init = node["init"] as Syntax | null;
        const update = node["update"] as Syntax | null;
        return [
          [
            "for",
            init === null ? null : this.#block([init.type === "VariableDeclaration" ? init : statementOf(init)], undefined),
            node["test"] === null ? null : this.#condition(node["test"] as Syntax),
            update === null ? null : this.#block([statementOf(update)], undefined),
            this.#block([node["body"] as Syntax], "continue"),
          ],
        ];
      }
      case "ForOfStatement":
      case "ForInStatement": {
        const left = node["left"] as Syntax;
        const target = left.type === "VariableDeclaration" ? this.#declaration(left) : this.#pattern(left);
        const kind = node.type === "ForInStatement" ? "in" : node["await"] === true ? "await of" : "of";
        return [["for", kind, target, part("right"), this.#block([node["body"] as Syntax], "continue")]];
      }
      case "DoWhileStatement":
        return [["do while", this.#block([node["body"] as Syntax], "continue"), this.#condition(node["test"] as Syntax)]];
      case "LabeledStatement": {
        this.#labels.push((node["label"] as Syntax)["name"] as string);
        const body = this.#block([node["body"] as Syntax], undefined);
        this.#labels.pop();
        return [["label", body]];
      }
      case "SwitchStatement": {
        const cases = (node["cases"] as { test: Syntax | null; consequent: Syntax[] }[]).map(
          ({ test, consequent }): Canonical => {
            return [test === null ? null : this.value(test), this.#block(consequent, undefined)];
          },
        );
        return [["switch", part("discriminant"), cases]];
      }
      case "TryStatement": {
        const handler = node["handler"] as { param: Syntax | null; body: Syntax } | null;
        const block = this.#block([node["block"] as Syntax], undefined);
        const param = handler?.param ?? null;
        const isUsed = param !== null && !(param.type === "Local" && isUnused(param["binding"] as Binding));
        const caught = handler && [isUsed ? this.#pattern(param) : null, this.#block([handler.body], undefined)];
        return [
          ["try", block, caught, node["finalizer"] === null ? null : this.#block([node["finalizer"] as Syntax], undefined)],
        ];
      }
      case "DebuggerStatement":
        return [["debugger"]];
      default:
        throw new SyntaxError(`unknown statement ${node.type}`);
    }
  }

  #label(label: Syntax | null): Canonical {
    return label === null ? null : this.#labels.lastIndexOf(label["name"] as string);
  }

  /** Whether it declares a number, a string or the like that never changes. It is inlined where it is used. */
  #isConstant(node: Syntax): boolean {
    const [{ id, init }] = node["declarations"] as [{ id: Syntax; init: Syntax | null }];
    const binding = id["binding"] as Binding | undefined;
    if (binding === undefined || init === null || node["kind"] === "var" || binding.writes > 0) return false;
    const value = isLiteral(init) ? this.value(init) : undefined;
    if (value === undefined || !isConstant(value)) return false;
    this.#constants.set(binding, value);
    return true;
  }

  /** For one variable, as {@link simple} leaves them; for several in the head of a `for`. */
  #declaration(node: Syntax): Canonical {
    const declarations = (node["declarations"] as { id: Syntax; init: Syntax | null }[]).map(({ id, init }): Canonical => {
      const target = this.#pattern(id);
      return init === null || (node["kind"] === "let" && isUndefined(init)) ? [target] : [target, this.value(init)];
    });
    const isConst = node["kind"] === "const" && bindingsIn(node).some(({ writes }) => writes > 0);
    return [node["kind"] === "var" ? "var" : isConst ? "const" : "let", ...declarations];
  }

  // Functions and classes

  #function(node: Syntax): Canonical {
    const { type, async: isAsync, generator } = node as Syntax & { async: boolean; generator: boolean };
    const params = (node["params"] as Syntax[]).map((param) => this.#pattern(param));
    const body = node["body"] as Syntax;
    const statements =
      body.type === "BlockStatement" ? (body["body"] as Syntax[]) : [{ type: "ReturnStatement", argument: body }];
    const kind = type === "ArrowFunctionExpression" ? "=>" : "function";
    return [kind, isAsync, generator, params, this.#block(statements, "return")];
  }

  #class(node: Syntax): Canonical {
    const superClass = this.#optional(node["superClass"] as Syntax | null);
    const members = ((node["body"] as Syntax)["body"] as Syntax[]).filter((member) => !keepsName(member));
    // Fields and methods don't see each other's order, unless keys are computed.
    const isFixed = members.some(({ computed }) => computed === true);
    const rank = ({ type }: Syntax): number => (type === "MethodDefinition" ? 1 : 0);
    const isConstructor = ({ kind }: Syntax): number => (kind === "constructor" ? 0 : 1);
    const sorted = isFixed ? members : members.toSorted((a, b) => rank(a) - rank(b) || isConstructor(a) - isConstructor(b));
    const keys = sorted.map(({ key }) => key as Syntax | undefined);
    this.#privates.push(keys.flatMap((key) => (key?.type === "PrivateIdentifier" ? [key["name"] as string] : [])));
    const body = sorted.map((member): Canonical => {
      if (member.type === "StaticBlock") return ["static", this.#block(member["body"] as Syntax[], undefined)];
      const kind = member.type === "PropertyDefinition" ? "field" : (member["kind"] as string);
      return [kind, member["static"] === true, this.#key(member), this.#optional(member["value"] as Syntax | null)];
    });
    this.#privates.pop();
    return [superClass, body];
  }

  // Expressions

  #optional(node: Syntax | null): Canonical {
    return node === null ? null : this.value(node);
  }

  value(node: Syntax): Canonical {
    const part = (key: string): Canonical => this.value(node[key] as Syntax);
    switch (node.type) {
      case "Local":
        return this.#name(node);
      case "Free":
        return this.#freeName(node["name"] as string);
      case "Literal":
        return literal(node);
      case "TemplateLiteral":
        return this.#template(node);
      case "TaggedTemplateExpression": {
        const { quasis, expressions } = node["quasi"] as Syntax & { quasis: { value: { raw: string } }[]; expressions: Syntax[] };
        return [
          "tagged",
          part("tag"),
          quasis.map(({ value }): Canonical => ["string", value.raw]),
          expressions.map((expression) => this.value(expression)),
        ];
      }
      case "ThisExpression":
      case "Super":
        return [node.type];
      case "MetaProperty":
        return ["meta", (node["meta"] as Syntax)["name"] as string, (node["property"] as Syntax)["name"] as string];
      case "ArrayExpression":
        return ["array", (node["elements"] as (Syntax | null)[]).map((element) => this.#optional(element))];
      case "ObjectExpression":
        return ["object", (node["properties"] as Syntax[]).map((property) => this.#property(property))];
      case "SpreadElement":
        return ["...", part("argument")];
      case "FunctionExpression":
      case "ArrowFunctionExpression":
        return this.#named(node, () => this.#function(node));
      case "ClassExpression":
        return this.#named(node, () => ["class", this.#class(node)]);
      case "SequenceExpression":
        return ["sequence", (node["expressions"] as Syntax[]).map((expression) => this.value(expression))];
      case "UnaryExpression":
        return this.#unary(node["operator"] as string, node["argument"] as Syntax);
      case "UpdateExpression":
        return ["update", node["prefix"] === true, node["operator"] as string, part("argument")];
      case "AwaitExpression":
        return ["await", part("argument")];
      case "YieldExpression":
        return ["yield", node["delegate"] === true, isUndefined(node["argument"] as Syntax | null) ? null : part("argument")];
      case "BinaryExpression":
        return this.#binary(node);
      case "LogicalExpression":
        return logical(
          node["operator"] as string,
          operandsOf(node).map((operand) => this.value(operand)),
        );
      case "ConditionalExpression":
        return conditional(this.#condition(node["test"] as Syntax), part("consequent"), part("alternate"));
      case "AssignmentExpression":
        return this.#assignment(node);
      case "ChainExpression":
        return ["chain", part("expression")];
      case "MemberExpression":
        return this.#member(node);
      case "CallExpression":
        return this.#call(node);
      case "NewExpression":
        return ["new", part("callee"), this.#arguments(node)];
      case "ImportExpression":
        return ["import", part("source"), this.#optional(node["options"] as Syntax | null)];
      case "PrivateIdentifier":
        return this.#private(node);
      default:
        // What is assigned to.
        return this.#pattern(node);
    }
  }

  /** Without its own name if nothing refers to it. */
  #named(node: Syntax, write: () => Canonical): Canonical {
    const id = node["id"] as Syntax | null;
    if (id?.type !== "Local" || isUnused(id["binding"] as Binding)) return write();
    return ["named", this.#name(id), write()];
  }

  #name(node: Syntax): Canonical {
    if (node.type !== "Local") return this.value(node);
    const binding = node["binding"] as Binding;
    const constant = this.#constants.get(binding);
    if (constant !== undefined) return constant;
    const known = this.#locals.get(binding) ?? this.#locals.size;
    this.#locals.set(binding, known);
    return binding.name === undefined ? ["local", known] : ["local", known, binding.name];
  }

  #freeName(name: string): Canonical {
    if (name === "undefined") return NOTHING;
    if (name === "NaN" || name === "Infinity") return ["number", name];
    return ["free", name];
  }

  /** Of the innermost class that declares it. */
  #private(node: Syntax): Canonical {
    const name = node["name"] as string;
    const depth = this.#privates.findLastIndex((names) => names.includes(name));
    return depth === -1 ? ["private", name] : ["private", depth, this.#privates[depth]?.indexOf(name) ?? -1];
  }

  #template(node: Syntax): Canonical {
    const texts = (node["quasis"] as { value: { cooked: string | null } }[]).map(({ value }) => value.cooked);
    const parts: Canonical[] = [["string", texts[0] ?? ""]];
    if (texts.includes(null)) throw new SyntaxError("a template with an unknown escape");
    for (const [at, expression] of (node["expressions"] as Syntax[]).entries()) {
      const part = this.value(expression);
      const last = parts.at(-1) as [string, string];
      const next = texts[at + 1] as string;
      if (isOf(part, "string")) parts[parts.length - 1] = ["string", last[1] + String(part[1]) + next];
      else parts.push(part, ["string", next]);
    }
    return parts.length === 1 ? (parts[0] as Canonical) : ["template", parts];
  }

  #property(node: Syntax): Canonical {
    if (node.type !== "Property") return this.value(node);
    const kind = node["method"] === true ? "method" : (node["kind"] as string);
    const key = this.#key(node);
    // `{ __proto__: x }` sets the prototype, `{ __proto__ }` and `{ ["__proto__"]: x }` don't.
    const isShort = node["shorthand"] === true && isOf(key, "string") && key[1] === "__proto__";
    return [isShort ? "shorthand" : kind, key, this.value(node["value"] as Syntax)];
  }

  #key(node: Syntax): Canonical {
    const key = node["key"] as Syntax;
    if (node["computed"] !== true) {
      if (key.type === "Identifier") return ["string", key["name"] as string];
      return key.type === "PrivateIdentifier" ? this.#private(key) : ["string", String(key["value"])];
    }
    const computed = this.value(key);
    if (isOf(computed, "string") && !["__proto__", "constructor", "prototype"].includes(String(computed[1]))) return computed;
    return ["computed", computed];
  }

  #member(node: Syntax): Canonical {
    const property = node["property"] as Syntax;
    const object = node["object"] as Syntax;
    const type = node["optional"] === true ? "?." : ".";
    if (node["computed"] === true) {
      const key = this.value(property);
      return [type, this.value(object), isOf(key, "number") ? ["string", String(key[1])] : key];
    }
    const name = property["name"] as string;
    return [type, this.value(object), property.type === "PrivateIdentifier" ? this.#private(property) : ["string", name]];
  }

  #call(node: Syntax): Canonical {
    const callee = node["callee"] as Syntax;
    const args = node["arguments"] as Syntax[];
    if (callee.type === "Free" && callee["name"] === "__name" && args.length === 2 && isNamed(args[0] as Syntax))
      return this.value(args[0] as Syntax);
    const type = node["optional"] === true ? "?.()" : "()";
    return [type, this.#callee(callee), this.#arguments(node)];
  }

  /** `(0, services_1.log)(x)` is how compilers call what ES modules call `log(x)`. */
  #callee(callee: Syntax): Canonical {
    const [zero, called, more] = callee.type === "SequenceExpression" ? (callee["expressions"] as Syntax[]) : [];
    const isImported =
      more === undefined &&
      zero?.["value"] === 0 &&
      called?.type === "MemberExpression" &&
      called["computed"] === false &&
      (called["object"] as Syntax).type === "Free";
    return isImported ? this.#freeName((called["property"] as Syntax)["name"] as string) : this.value(callee);
  }

  #arguments(node: Syntax): Canonical {
    return (node["arguments"] as Syntax[]).map((argument) => this.value(argument));
  }

  #unary(operator: string, argument: Syntax): Canonical {
    if (operator === "!") return not(this.#condition(argument));
    const value = this.value(argument);
    if (operator === "void" && argument.type === "Literal") return NOTHING;
    if (operator === "-" && isOf(value, "number")) return number(-Number(value[1]));
    return [operator, value];
  }

  #binary(node: Syntax): Canonical {
    const operator = node["operator"] as string;
    const left = this.value(node["left"] as Syntax);
    const right = this.value(node["right"] as Syntax);
    if (operator === "+") return sum(left, right);
    if (isOf(left, "number") && isOf(right, "number")) {
      const folded = FOLDED[operator]?.(Number(left[1]), Number(right[1]));
      if (folded !== undefined) return number(folded);
    }
    if (operator === "===" || operator === "==") return equal(operator, left, right);
    if (operator === "!==" || operator === "!=") return ["!", equal(operator === "!==" ? "===" : "==", left, right)];
    // No result of `typeof` other than "undefined" begins with "u" or a later letter.
    if ((operator === "<" || operator === ">") && isOf(left, "typeof") && isOf(right, "string") && right[1] === "u") {
      const isUndefined = equal("===", left, ["string", "undefined"]);
      return operator === ">" ? isUndefined : ["!", isUndefined];
    }
    return [operator, left, right];
  }

  #assignment(node: Syntax): Canonical {
    const operator = node["operator"] as string;
    const left = node["left"] as Syntax;
    const right = this.value(node["right"] as Syntax);
    const target = this.#pattern(left);
    if (operator === "=") return ["=", target, right];
    // For a variable, since nothing is evaluated twice.
    if (left.type !== "Local" && left.type !== "Free") return [operator, target, right];
    const short = operator.slice(0, -1);
    if (["&&", "||", "??"].includes(short)) return logical(short, [target, ["=", target, right]]);
    return ["=", target, short === "+" ? sum(target, right) : [short, target, right]];
  }

  /** Whether it holds, without operators that only convert it to a boolean. */
  #condition(node: Syntax): Canonical {
    const value = node.type === "LogicalExpression" && node["operator"] !== "??" ? undefined : this.value(node);
    if (value === undefined) {
      const operands = operandsOf(node).map((operand) => this.#condition(operand));
      return logical(node["operator"] as string, operands);
    }
    return isOf(value, "!") && isOf(value[1], "!") ? (value[1][1] as Canonical) : value;
  }

  #pattern(node: Syntax): Canonical {
    switch (node.type) {
      case "AssignmentPattern":
        return ["default", this.#pattern(node["left"] as Syntax), this.value(node["right"] as Syntax)];
      case "RestElement":
        return ["...", this.#pattern(node["argument"] as Syntax)];
      case "ArrayPattern":
        return ["array of", (node["elements"] as (Syntax | null)[]).map((element) => element && this.#pattern(element))];
      case "ObjectPattern":
        return [
          "object of",
          (node["properties"] as Syntax[]).map((property): Canonical => {
            if (property.type !== "Property") return this.#pattern(property);
            return [this.#key(property), this.#pattern(property["value"] as Syntax)];
          }),
        ];
      case "Local":
      case "Free":
      case "MemberExpression":
        return this.value(node);
      default:
        throw new SyntaxError(`unknown syntax ${node.type}`);
    }
  }
}
