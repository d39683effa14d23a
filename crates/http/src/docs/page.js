// Shows /openapi.json. What the document says is data: it is only ever put in as text.
"use strict";

const make = (tag, text, ...children) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
};

const kind = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.oneOf) return schema.oneOf.map(kind).join(" or ");
  if (schema.type === "array") return `list of ${kind(schema.items) || "anything"}`;
  return [].concat(schema.type || "anything").join(" or ");
};

const table = (rows) => {
  const body = make("tbody");
  for (const [name, type, what] of rows) {
    body.append(make("tr", "", make("td", "", make("code", name)), make("td", type), make("td", what)));
  }
  return make("table", "", body);
};

const operation = (method, path, said) => {
  const head = make("summary", "", make("b", method.toUpperCase()), make("code", path), make("span", said.summary));
  const box = make("details", "", head);
  box.dataset.words = `${method} ${path} ${said.summary} ${said.description || ""}`.toLowerCase();
  if (said.description) box.append(make("p", said.description));
  const given = (said.parameters || []).map((p) => [p.name, `${p.in}, ${kind(p.schema)}`, p.description || ""]);
  if (given.length) box.append(table(given));
  const body = said.requestBody && said.requestBody.content["application/json"];
  if (body) box.append(make("p", `Body: ${kind(body.schema)}`));
  const answers = Object.entries(said.responses)
    .filter(([status]) => status < "300")
    .map(([status, answer]) => {
      const content = Object.entries(answer.content || {})[0];
      return [status, content ? `${content[0]}, ${kind(content[1].schema)}` : "", answer.description];
    });
  box.append(make("p", "Answers:"), table(answers));
  return box;
};

const shape = (name, schema) => {
  const must = new Set(schema.required || []);
  const rows = Object.entries(schema.properties || {}).map(([field, of]) => [
    must.has(field) ? field : `${field}?`, kind(of), of.description || "",
  ]);
  return make("details", "", make("summary", "", make("code", name), make("span", schema.description)), table(rows));
};

const show = (api) => {
  document.getElementById("about").textContent = api.info.description;
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, said] of Object.entries(methods)) {
      const tag = (said.tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(method, path, said));
    }
  }
  const paths = document.getElementById("paths");
  for (const [tag, boxes] of groups) paths.append(make("h2", tag), ...boxes);
  const shapes = document.getElementById("shapes");
  for (const [name, schema] of Object.entries(api.components.schemas)) shapes.append(shape(name, schema));
  document.getElementById("find").addEventListener("input", (event) => {
    const word = event.target.value.toLowerCase();
    for (const box of paths.querySelectorAll("details")) box.hidden = !box.dataset.words.includes(word);
  });
};

fetch("/openapi.json")
  .then((answer) => answer.json())
  .then(show)
  .catch((error) => {
    document.getElementById("about").textContent = `The document could not be read: ${error}`;
  });
