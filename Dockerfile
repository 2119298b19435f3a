# GPU image: vLLM's own image of the version that the verifier knows, with asd-sweep beside it.
#   docker build -t asd-sweep .
#   docker run --gpus all --shm-size 8g -v "$PWD:/work" asd-sweep start --study qwen3-14b
FROM vllm/vllm-openai:v0.32.0

COPY . /opt/asd-sweep

# The image's torch and transformers, which its vLLM was built for, stay as they are: pip may not replace them.
RUN python3 -c "from importlib.metadata import version as v; print(*(f'{n}=={v(n)}' for n in ('torch', 'transformers')), sep='\n')" \
        > /tmp/constraints.txt \
    && python3 -m pip install --no-cache-dir --constraint /tmp/constraints.txt /opt/asd-sweep \
    && rm -rf /opt/asd-sweep /tmp/constraints.txt \
    && useradd --create-home --uid 10001 asd \
    && install -d -o asd -g asd /work

USER 10001
WORKDIR /work
ENV HOME=/home/asd \
    ASD_SWEEP_CACHE=/home/asd/.cache/asd-sweep \
    HF_HOME=/home/asd/.cache/huggingface
ENTRYPOINT ["asd-sweep"]
CMD ["--help"]
