import logging
from vegakit import Agent, program

logger = logging.getLogger(__name__)
writer = Agent("writer", model="fast")


@program
def main(topic: str) -> str:
    logger.info("start")
    return writer(topic)
