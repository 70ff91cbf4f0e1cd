# The service on a CPU, see docs/serving.md:
#   docker build -t informer .
#   docker run --rm -p 127.0.0.1:8000:8000 informer
FROM python:3.12-slim

# --build-arg TORCH_INDEX=URL: the package index of torch's CPU builds; the default builds bring CUDA along
ARG TORCH_INDEX=""
WORKDIR /app
COPY constraints.txt ./
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep '^torch==' constraints.txt)"
COPY pyproject.toml README.md LICENSE ./
COPY conf ./conf
COPY data/sample.csv ./data/sample.csv
COPY informer ./informer
RUN pip install --no-cache-dir -c constraints.txt '.[serve]' \
    && useradd --system informer

USER informer
WORKDIR /tmp
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
# SIGTERM (docker stop) ends it after the requests in progress
ENTRYPOINT ["informer", "serve", "host=0.0.0.0"]
