"""Files of encoders: their places, their declarations and their weights.

Files, in the order in which to read them:

    source         finds the files by the encoder's name: packaged, in a folder, in the hub's cache
    files          EncoderFiles: the small files of a folder, read once and checked
    declared       pooling, length and prompts that files of sentence-transformers declare
    loaded_model   a model, with the files that it came from
    hugging_face   weights of safetensors and HDF5 files
    preset_files   names of the files of KerasHub's presets
    keras_hub      presets of KerasHub, as the files of a Hugging Face folder
    google         Google's folders of a TensorFlow 1 checkpoint
    tf1            checkpoints of TensorFlow 1 and 2
    tf1_names      BERT's variables under their names in TensorFlow 1's
    model_garden   encoders of the Model Garden and of TensorFlow Hub; model_garden_names, model_garden_config
"""
