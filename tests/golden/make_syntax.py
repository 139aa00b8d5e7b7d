"""Renders template rows with jinja2 in transformers' environment: gen.py IN.jsonl OUT.jsonl"""
import json, sys, jinja2, jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2 import nodes
class Gen(jinja2.ext.Extension):
    tags = {"generation"}
    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_g"), [], [], body).set_lineno(lineno)
    @jinja2.pass_eval_context
    def _g(self, ctx, caller): return caller()
def raise_exception(m): raise jinja2.exceptions.TemplateError(m)
def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Gen, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson; env.globals["raise_exception"] = raise_exception
with open(sys.argv[2], "w") as f:
    for l in open(sys.argv[1]):
        r = json.loads(l); o = {"template": r["template"], "vars": r.get("vars", {})}
        try: o["rendered"] = env.from_string(o["template"]).render(**o["vars"])
        except Exception as e: o["error"] = type(e).__name__ + ": " + str(e)[:100]
        f.write(json.dumps(o) + "\n")
