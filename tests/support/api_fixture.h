/* What a request body is read against, without a model: the toy tokenizer and a template. */
#ifndef TESTS_SUPPORT_API_FIXTURE_H
#define TESTS_SUPPORT_API_FIXTURE_H

#include "engine/serve/apireq.h"

enum { API_VOCAB = 300, API_CTX = 64, API_EOS = 261 };

struct api_fixture {
    struct model model; /* tokenizer and template alone */
    struct apireq_env env;
};

/* err: those of tok_parse and chat_compile. own: caller, api_fixture_fini */
int api_fixture_init(struct api_fixture *f);
void api_fixture_fini(struct api_fixture *f);

#endif
