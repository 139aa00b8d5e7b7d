#include "tests/support/support.h"

#include "tests/support/api_fixture.h"

#include <string.h>

#include "tests/support/toy_tok.h"

int api_fixture_init(struct api_fixture *f) {
    static const char template[] =
        "{% for m in messages %}{{ raise_exception('no systems here') if m['content'] == 'raise' }}"
        "{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:";
    static const int32_t eos[] = {API_EOS};
    struct buf b;
    memset(f, 0, sizeof *f);
    buf_init(&b, MEM_TEST, 1 << 20);
    toy_json(&b);
    int rc = tok_parse("toy", buf_cstr(&b), b.len, &f->model.tok);
    rc = rc ? rc : chat_compile("template", template, (int64_t)sizeof template - 1, &f->model.chat);
    buf_fini(&b);
    f->env = (struct apireq_env){.model = &f->model,
                                 .name = "toy",
                                 .vocab = API_VOCAB,
                                 .ctx_max = API_CTX,
                                 .eos = eos,
                                 .n_eos = 1};
    return rc;
}

void api_fixture_fini(struct api_fixture *f) {
    chat_free(f->model.chat);
    tok_destroy(f->model.tok);
}
