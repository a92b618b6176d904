"""Loads a model's folder with transformers and asks it a question, as its chat template has it.

    .venv/bin/python examples/ask.py FOLDER 'What colour is a boat?'
"""
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    folder, question = sys.argv[1:]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True,
                                           return_tensors="pt", return_dict=True)
    with torch.no_grad():
        answer = model.generate(**prompt, max_new_tokens=20, do_sample=False)
    print(tokenizer.decode(answer[0, prompt["input_ids"].shape[1]:], skip_special_tokens=True).strip())


if __name__ == "__main__":
    main()
